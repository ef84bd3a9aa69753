"""What the functions of `native.c` are given: packed weights, memory, threads of ours."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from threading import Lock, local
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.narrow import Arithmetic
from elmo.kernels.native import library
from elmo.kernels.packing import packed

KINDS: dict[Arithmetic, int] = {"float32": 0, "bfloat16": 1, "int8": 2, "bfloat16x3": 3}
SIZES: dict[Arithmetic, int] = {"float32": 4, "bfloat16x3": 4, "bfloat16": 2, "int8": 1}
# Rows of a tile, units computed together: rows are filled up to a multiple.
LANES = 16
# Columns computed together: columns are filled up to a multiple.
PANEL = 32
# Numbers of a row are a multiple of this, in each arithmetic.
DEPTHS: dict[Arithmetic, int] = {"float32": 1, "bfloat16x3": 32, "bfloat16": 32, "int8": 64}
# Rows of a product that stay in the second cache, as in native.c.
TOGETHER = 256
LINE = 64
LARGE_PAGE = 2**21


@cache
def can_compute(arithmetic: Arithmetic) -> bool:
    """Tell whether the library is there and computes in this arithmetic on this CPU."""
    loaded = library()
    return loaded is not None and bool(loaded.has(KINDS[arithmetic]))


def projected_in(arithmetic: Arithmetic) -> Arithmetic:
    """Give what units are projected in, where all else is computed in an arithmetic."""
    found = function("projected_in")(KINDS[arithmetic])
    return next(name for name, kind in KINDS.items() if kind == found)


def is_plain(*tensors: Tensor) -> bool:
    """Tell whether a call with these tensors is one that C can take: float32, without gradients."""
    return (
        all(tensor.device.type == "cpu" for tensor in tensors)
        and all(tensor.dtype == torch.float32 for tensor in tensors)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def are_within(numbers: Tensor, n: int) -> bool:
    """Tell whether all numbers are rows of a table: C reads whatever it is told to."""
    return numbers.numel() == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < n)


def function(name: str) -> Callable[..., int]:
    """Give a function of the library, once `can_compute` has said that it is there."""
    loaded = library()
    assert loaded is not None
    found: Callable[..., int] = getattr(loaded, name)
    return found


def filled_up(n: int, multiple: int) -> int:
    """Give the next multiple."""
    return n + -n % multiple


# ----------------------------------------------------------------------------- memory


def aligned(n_bytes: int) -> Tensor:
    """Give fresh memory that begins with a cache line, or with a large page where it is large."""
    border = LINE if n_bytes < LARGE_PAGE else LARGE_PAGE
    room = torch.empty(n_bytes + border, dtype=torch.uint8)
    room = room[-room.data_ptr() % border :]
    if border == LARGE_PAGE:
        n = n_bytes // LARGE_PAGE * LARGE_PAGE
        function("large_pages")(ctypes.c_void_p(room.data_ptr()), ctypes.c_long(n))
    return room


class _Rooms(local):
    """Memory that a thread uses again: fresh pages cost as much as what is written to them."""

    def __init__(self) -> None:
        self.named: dict[str, Tensor] = {}

    def __call__(self, name: str, n_bytes: int) -> int:
        """Give the address of at least so many bytes, beginning with a cache line."""
        if name not in self.named or self.named[name].numel() < n_bytes:
            self.named[name] = aligned(n_bytes)
        return self.named[name].data_ptr()


room = _Rooms()

# ----------------------------------------------------------------------------- threads


def together(tasks: Iterable[Callable[[], None]]) -> None:
    """Do all tasks, so many at a time; while C is at work Python's lock is free."""
    left = deque(tasks)

    def work() -> None:
        while left:
            try:
                task = left.popleft()
            except IndexError:  # another one was quicker
                return
            task()

    n_others = min(torch.get_num_threads(), len(left)) - 1
    if n_others < 1:
        return work()
    futures = [_threads(n_others, os.getpid()).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        # Whatever happened here, what others are writing to must stay until they are done.
        wait(futures)
    for future in futures:
        future.result()


@cache
def _threads(n: int, process: int) -> ThreadPoolExecutor:
    """Give threads beside the caller; a process that was forked off has none of its parent's."""
    return ThreadPoolExecutor(n, "native", _begin_thread, (_places(),))


def _begin_thread(places: set[int]) -> None:
    """Make a new thread ready for work, on these cores where there are any."""
    if places:
        os.sched_setaffinity(0, places)
    # OpenMP's own threads keep their cores busy while they wait for PyTorch's next call, and ours
    # find none free. They do not once there are more of them than cores: those of one of ours, too.
    if _first_of(os.getpid()).acquire(blocking=False):
        _wake_openmp()


@cache
def _first_of(process: int) -> Lock:
    """Give what only the first thread of a process gets."""
    return Lock()


def _wake_openmp() -> None:
    """Have OpenMP make its threads, which are there once they had something to do."""
    torch.zeros(2**20).add_(1)


def _places() -> set[int]:
    """Give the cores for threads of ours where OpenMP has bound the caller to one.

    A new thread stands where its maker does: with `OMP_PROC_BIND` all of ours would share that
    core. Nothing where OpenMP binds no thread.
    """
    is_bound = os.environ.get("OMP_PROC_BIND", "false").lower() != "false"
    if not is_bound or not hasattr(os, "sched_getaffinity"):
        return set()
    _wake_openmp()  # one thread on each core it may use
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            found |= os.sched_getaffinity(int(thread))
    return found - os.sched_getaffinity(0)


def shares(n: int, multiple: int) -> list[tuple[int, int]]:
    """Cut a range into pieces, two for each of several threads, each but the last a multiple."""
    n_pieces = 2 * torch.get_num_threads() if torch.get_num_threads() > 1 else 1
    width = filled_up(-(-n // n_pieces), multiple)
    return [(first, min(first + width, n)) for first in range(0, n, width)]


# ----------------------------------------------------------------------------- products


class Weights(NamedTuple):
    """Packed weights of a product (rows, k) (k, n), and int8's scale of each column."""

    values: Tensor
    scale: Tensor
    n: int
    k: int


def pack(
    weight: Tensor,
    arithmetic: Arithmetic,
    name: str = "matrix",
    arranged: Callable[[Tensor], Tensor] = lambda weight: weight,
    block: int | None = None,
) -> Weights:
    """Pack a weight for products in an arithmetic, once.

    Args:
        weight: (n, k), or what `arranged` makes that of.
        arithmetic: of the products.
        name: tells one arrangement from another.
        arranged: puts rows and columns where they are wanted.
        block: numbers of a row that are multiplied together, one such block after another; all
            where None.
    """

    def make(weight: Tensor) -> Weights:
        rows = arranged(weight.detach())
        n, k = filled_up(len(rows), PANEL), filled_up(rows.shape[1], DEPTHS[arithmetic])
        rows = functional.pad(rows, (0, k - rows.shape[1], 0, n - len(rows))).contiguous()
        values, scale = aligned(n * k * SIZES[arithmetic]), torch.ones(n)
        function("pack")(
            KINDS[arithmetic],
            ctypes.c_void_p(rows.data_ptr()),
            ctypes.c_long(n),
            ctypes.c_long(k),
            ctypes.c_long(block or k),
            ctypes.c_void_p(values.data_ptr()),
            ctypes.c_void_p(scale.data_ptr()),
        )
        return Weights(values, scale, n, k)

    return packed(weight, f"{name} {arithmetic}", make)


class _Product(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "k", "n", "first", "last", "gates")),
        *(
            (name, ctypes.c_void_p)
            for name in ("a", "a_scale", "w", "w_scale", "bias", "out", "room")
        ),
    )


def _gather(table: Tensor, index: Tensor | None, arithmetic: Arithmetic) -> tuple[int, int, int]:
    """Write rows of a table as they are multiplied, into this thread's memory.

    Args:
        table: (rows, k).
        index: which rows; all where None.
        arithmetic: of the product.

    Returns:
        The number of rows, the address of their values and that of their scales.
    """
    n, k = len(table) if index is None else len(index), table.shape[1]
    values = room("values", filled_up(n, LANES) * k * SIZES[arithmetic])
    scales = room("scales", 4 * n)
    function("gather")(
        KINDS[arithmetic],
        ctypes.c_void_p(table.data_ptr()),
        None if index is None else ctypes.c_void_p(index.data_ptr()),
        ctypes.c_long(n),
        ctypes.c_long(k),
        ctypes.c_void_p(values),
        ctypes.c_void_p(scales),
    )
    return n, values, scales


def multiply(
    table: Tensor,
    index: Tensor | None,
    weights: Weights,
    bias: Tensor,
    arithmetic: Arithmetic,
    out: int,
    *,
    columns: tuple[int, int],
    gates: bool,
) -> None:
    """Multiply rows of a table with some columns of packed weights, and add the bias.

    Args:
        table: (rows, k), contiguous.
        index: which rows; all where None.
        weights: packed.
        bias: (n,), in their order.
        arithmetic: they were packed for.
        out: address of (rows, n), in float32.
        columns: the first, and the one after the last.
        gates: write (n / 64, rows, 64), and bfloat16 where the arithmetic is narrow.
    """
    n, values, scales = _gather(table, index, arithmetic)
    given = _Product(
        rows=n,
        k=weights.k,
        n=weights.n,
        first=columns[0],
        last=columns[1],
        gates=gates,
        a=values,
        a_scale=scales,
        w=weights.values.data_ptr(),
        w_scale=weights.scale.data_ptr(),
        bias=bias.data_ptr(),
        out=out,
        room=room("sums", TOGETHER * PANEL * 4),
    )
    function(f"product_{arithmetic}")(ctypes.byref(given))
