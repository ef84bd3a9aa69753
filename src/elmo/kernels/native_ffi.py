"""What the functions of `native.c` are given: packed weights, memory, threads of ours."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from enum import IntEnum
from functools import cache, partial
from threading import Lock, local
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.compute_precision import Precision
from elmo.kernels.native_library import library
from elmo.kernels.packing import packed

# How C multiplies: an arithmetic, or float32 as three int8.
Kind = Literal["float32", "int8x3", "bfloat16", "int8"]
KINDS: dict[Kind, int] = {"float32": 0, "bfloat16": 1, "int8": 2, "int8x3": 3}
SIZES: dict[Kind, int] = {"float32": 4, "int8x3": 3, "bfloat16": 2, "int8": 1}
# Rows of a tile, units computed together: rows are filled up to a multiple.
LANES = 16
# Columns computed together: columns are filled up to a multiple.
PANEL = 64
# Numbers of a row are a multiple of this, of each kind.
DEPTHS: dict[Kind, int] = {"float32": 16, "int8x3": 64, "bfloat16": 32, "int8": 64}
# Rows of a product that stay in the second cache, as in native.c; a multiple of those that are
# multiplied together in any arithmetic, up to which rows are filled up.
TOGETHER = 240
GROUP = 48
# Sums of each of them at a time, at most.
ROOM = 96
LINE = 64
LARGE_PAGE = 2**21
# Numbers that it takes some ten times as long to multiply as to hand out a task.
WORTH_A_TASK = 2**26
# Fewer are multiplied before another thread has begun.
WORTH_A_THREAD = 2**21


@cache
def can_compute(kind: Kind) -> bool:
    """Tell whether the library is there and multiplies so on this CPU."""
    loaded = library()
    return loaded is not None and bool(loaded.has(KINDS[kind]))


def kind_of(arithmetic: Precision) -> Kind:
    """Say how this CPU multiplies in an arithmetic: float32 by bytes where it has tiles."""
    return "int8x3" if arithmetic == "float32" and can_compute("int8x3") else arithmetic


def projected_in(kind: Kind) -> Kind:
    """Give what units are projected in, where all else is of a kind."""
    found = function("projected_in")(KINDS[kind])
    return next(name for name, number in KINDS.items() if number == found)


def is_plain(*tensors: Tensor) -> bool:
    """Tell whether a call with these tensors is one that C can take: float32, without gradients."""
    return (
        all(one.device.type == "cpu" and one.dtype == torch.float32 for one in tensors)
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


def together(tasks: Iterable[Callable[[], bool | None]]) -> None:
    """Do all tasks, so many at a time; while C is at work Python's lock is free.

    A task that gives True has more to do, and is taken up again after the others, by any thread.
    After an error nothing more is begun.
    """
    left = deque(tasks)
    stopped = _Stopped()

    def work() -> None:
        try:
            while left and not stopped.is_so:
                try:
                    task = left.popleft()
                except IndexError:  # another one was quicker
                    return
                if task() is True:
                    left.append(task)
        except BaseException:
            stopped.is_so = True
            raise

    n_others = min(torch.get_num_threads(), len(left)) - 1
    if n_others < 1:
        return work()
    futures = [_threads(n_others, os.getpid()).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        _wait_for(futures, stopped)
    for future in futures:
        if not future.cancelled():
            future.result()


class _Stopped:
    """Whether nothing more is begun."""

    is_so = False


def _wait_for(futures: list[Future[None]], stopped: _Stopped) -> None:
    """Wait until none of them works any more, however often somebody interrupts.

    What they are writing to must stay so long. Those that have not begun, since their threads work
    for another caller, need not.
    """
    interrupt: BaseException | None = None
    while True:
        try:
            wait([future for future in futures if not future.cancel()])
            break
        except BaseException as error:
            stopped.is_so = True
            interrupt = error
    if interrupt is not None:
        raise interrupt


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


def shares(n: int, multiple: int, work: int) -> list[tuple[int, int]]:
    """Cut a range into pieces for threads, each but the last a multiple.

    One where there is next to nothing to do, two for each of several threads where there is little.
    Else each is that share of what is left, down to what is worth a task: however fast each thread
    is, all end at about the same time.

    Args:
        n: the range is 0 to n.
        multiple: of what pieces are one.
        work: numbers that are multiplied, added or written for each of the n.
    """
    n_threads = torch.get_num_threads()
    n_pieces = 2 * n_threads if n_threads > 1 and n * work >= WORTH_A_THREAD else 1
    least = min(-(-n // n_pieces), WORTH_A_TASK // max(1, work))
    found, first = [], 0
    while first < n:
        width = max(multiple, filled_up(max(least, -(-(n - first) // n_pieces)), multiple))
        found.append((first, min(first + width, n)))
        first += width
    return found


# ----------------------------------------------------------------------------- products


class Weights(NamedTuple):
    """Packed weights of a product (rows, k) (k, n), and the scale of each column of bytes."""

    values: Tensor
    scale: Tensor
    n: int
    k: int


def pack(
    weight: Tensor,
    kind: Kind,
    name: str = "matrix",
    arranged: Callable[[Tensor], Tensor] = lambda weight: weight,
    block: int | None = None,
) -> Weights:
    """Pack a weight for products of a kind, once.

    Args:
        weight: (n, k), or what `arranged` makes that of.
        kind: of the products.
        name: tells one arrangement from another.
        arranged: puts rows and columns where they are wanted.
        block: numbers of a row that are multiplied together, one such block after another; all
            where None.
    """

    def make(weight: Tensor) -> Weights:
        return pack_rows(arranged(weight.detach()), kind, block)

    return packed(weight, f"{name} {kind}", make)


def pack_rows(rows: Tensor, kind: Kind, block: int | None = None) -> Weights:
    """Pack what `pack` keeps: see there."""
    n, k = filled_up(len(rows), PANEL), filled_up(rows.shape[1], DEPTHS[kind])
    rows = functional.pad(rows, (0, k - rows.shape[1], 0, n - len(rows))).contiguous()
    values, scale = aligned(n * k * SIZES[kind]), torch.ones(n)
    function("pack")(
        KINDS[kind],
        ctypes.c_void_p(rows.data_ptr()),
        ctypes.c_long(n),
        ctypes.c_long(k),
        ctypes.c_long(block or k),
        ctypes.c_void_p(values.data_ptr()),
        ctypes.c_void_p(scale.data_ptr()),
    )
    return Weights(values, scale, n, k)


def side_by_side(n_parts: int, rows: Tensor) -> Tensor:
    """Put sixteen rows of each of so many parts of a matrix beside each other, then the next."""
    return rows.view(n_parts, -1, LANES, *rows.shape[1:]).transpose(0, 1).flatten(0, 2)


class Gathered(NamedTuple):
    """Rows as they are multiplied, and the scale of each where they are bytes."""

    values: Tensor
    scale: Tensor
    n: int


def gathered(
    table: Tensor,
    index: Tensor | None,
    kind: Kind,
    *,
    with_others: bool = False,
) -> Gathered:
    """Write rows of a table as they are multiplied.

    Args:
        table: (rows, k), contiguous.
        index: which rows; all where None.
        kind: of the product.
        with_others: share the rows out among all threads; this one alone does it otherwise.
    """
    n, k = len(table) if index is None else len(index), table.shape[1]
    rows = Gathered(aligned(filled_up(n, GROUP) * k * SIZES[kind]), torch.empty(n), n)

    def write(first: int, last: int) -> None:
        function("gather")(
            KINDS[kind],
            ctypes.c_void_p(table.data_ptr()),
            None if index is None else ctypes.c_void_p(index.data_ptr()),
            ctypes.c_long(first),
            ctypes.c_long(last),
            ctypes.c_long(k),
            ctypes.c_void_p(rows.values.data_ptr()),
            ctypes.c_void_p(rows.scale.data_ptr()),
        )

    if with_others:
        together(partial(write, *piece) for piece in shares(n, GROUP, k))
    else:
        write(0, n)
    return rows


class _Product(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "k", "n", "first", "last", "after")),
        *(
            (name, ctypes.c_void_p)
            for name in ("a", "a_scale", "w", "w_scale", "bias", "x", "out", "room")
        ),
    )


class After(IntEnum):
    """What becomes of a product and its bias, as in native.c."""

    PLAIN = 0
    """(rows, n) in float32."""
    GATES = 1
    """(n / 64, rows, 64), in bfloat16 where the kind is narrow."""
    HIGHWAY = 2
    """(rows, n / 2): with weights `side_by_side`, what x is transformed to and its gates."""


def multiply(
    rows: Gathered,
    weights: Weights,
    bias: Tensor,
    kind: Kind,
    out: int,
    columns: tuple[int, int],
    after: After = After.PLAIN,
    x: Tensor | None = None,
) -> None:
    """Multiply rows with some columns of packed weights, and add the bias.

    Args:
        rows: gathered.
        weights: packed.
        bias: (n,), in their order.
        kind: they were packed for.
        out: address of what is written.
        columns: the first, and the one after the last.
        after: what becomes of it.
        x: of a highway layer, (rows, n / 2), contiguous.
    """
    given = _Product(
        rows=rows.n,
        k=weights.k,
        n=weights.n,
        first=columns[0],
        last=columns[1],
        after=after,
        a=rows.values.data_ptr(),
        a_scale=rows.scale.data_ptr(),
        w=weights.values.data_ptr(),
        w_scale=weights.scale.data_ptr(),
        bias=bias.data_ptr(),
        x=None if x is None else x.data_ptr(),
        out=out,
        room=room("sums", TOGETHER * ROOM * 4),
    )
    function(f"product_{kind}")(ctypes.byref(given))
