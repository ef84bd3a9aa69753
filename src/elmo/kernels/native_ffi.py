"""Python interface to `native.c`: packed weights, scratch memory and threads."""

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
from elmo.kernels.packing import pack_once

# Format of the operands of a product: a precision, or the int8 decomposition of float32 (int8x3).
NumberFormat = Literal["float32", "int8x3", "bfloat16", "int8"]
# The value of each format in the C code.
FORMAT_IDS: dict[NumberFormat, int] = {"float32": 0, "bfloat16": 1, "int8": 2, "int8x3": 3}
BYTES_PER_NUMBER: dict[NumberFormat, int] = {"float32": 4, "int8x3": 3, "bfloat16": 2, "int8": 1}
# Rows and 32-bit columns of an AMX tile; LSTM units are computed in blocks of this size.
TILE = 16
# Columns that are computed together. Weights are padded to a multiple of it.
PANEL = 64
# The inner dimension of a product is padded to a multiple of this.
DEPTH_MULTIPLES: dict[NumberFormat, int] = {"float32": 16, "int8x3": 64, "bfloat16": 32, "int8": 64}
# Rows of a product that fit in the L2 cache, as in native.c; a multiple of ROW_MULTIPLE.
ROW_BLOCK = 240
# Rows are padded to a multiple of this: a multiple of the row blocks of all formats (6 and 16).
ROW_MULTIPLE = 48
# Sums per row that a product needs at a time, at most.
MAX_SUMS = 96
CACHE_LINE = 64
HUGE_PAGE = 2**21
# Multiplications of a task that take about ten times as long as scheduling the task.
MIN_TASK_WORK = 2**26
# Fewer multiplications are done before another thread has started.
MIN_THREADED_WORK = 2**21


@cache
def can_compute(number_format: NumberFormat) -> bool:
    """Whether the native library is available and this CPU supports products in a number format."""
    loaded = library()
    return loaded is not None and bool(loaded.supports(FORMAT_IDS[number_format]))


def format_for(precision: Precision) -> NumberFormat:
    """Return the fastest number format for a precision; AMX computes float32 from int8 parts."""
    return "int8x3" if precision == "float32" and can_compute("int8x3") else precision


def projection_format(number_format: NumberFormat) -> NumberFormat:
    """Return the number format of the LSTM projection, given that of all other matmuls."""
    number = native_function("projection_format")(FORMAT_IDS[number_format])
    return next(name for name, value in FORMAT_IDS.items() if value == number)


def is_float32_inference(*tensors: Tensor) -> bool:
    """Whether all tensors are float32 on the CPU, without gradients, autocast or compilation."""
    return (
        all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def are_valid_indices(indices: Tensor, n: int) -> bool:
    """Whether all indices are in [0, n). The C code does not check its indices."""
    return indices.numel() == 0 or (int(indices.min()) >= 0 and int(indices.max()) < n)


def native_function(name: str) -> Callable[..., int]:
    """Return a function of the native library. Requires that `can_compute` returned True."""
    loaded = library()
    assert loaded is not None
    exported: Callable[..., int] = getattr(loaded, name)
    return exported


def round_up(n: int, multiple: int) -> int:
    """Round n up to a multiple of `multiple`."""
    return n + -n % multiple


# ----------------------------------------------------------------------------- memory


def allocate_aligned(n_bytes: int) -> Tensor:
    """Allocate memory aligned to a cache line, or to a huge page if it is at least that large."""
    alignment = CACHE_LINE if n_bytes < HUGE_PAGE else HUGE_PAGE
    memory = torch.empty(n_bytes + alignment, dtype=torch.uint8)
    memory = memory[-memory.data_ptr() % alignment :]
    if alignment == HUGE_PAGE:
        n = n_bytes // HUGE_PAGE * HUGE_PAGE
        native_function("use_huge_pages")(ctypes.c_void_p(memory.data_ptr()), ctypes.c_long(n))
    return memory


class _ScratchMemory(local):
    """Named per-thread buffers, reused because page faults cost as much as writing the data."""

    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, n_bytes: int) -> int:
        """Return the address of a buffer of at least `n_bytes`, aligned to a cache line."""
        if name not in self.buffers or self.buffers[name].numel() < n_bytes:
            self.buffers[name] = allocate_aligned(n_bytes)
        return self.buffers[name].data_ptr()


scratch = _ScratchMemory()

# ----------------------------------------------------------------------------- threads


def run_tasks(tasks: Iterable[Callable[[], bool | None]]) -> None:
    """Run tasks in parallel, with as many threads as PyTorch uses; the C code releases the GIL.

    A task that returns True is not finished and is called again after the other tasks, possibly by
    another thread. After an error, no further tasks are started.
    """
    queue = deque(tasks)
    stop = _StopFlag()

    def work() -> None:
        try:
            while queue and not stop.is_set:
                try:
                    task = queue.popleft()
                except IndexError:  # another thread took the last task
                    return
                if task() is True:
                    queue.append(task)
        except BaseException:
            stop.is_set = True
            raise

    n_others = min(torch.get_num_threads(), len(queue)) - 1
    if n_others < 1:
        return work()
    futures = [_thread_pool(n_others, os.getpid()).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        started = _wait_for(futures, stop)
    for future in started:
        future.result()


class _StopFlag:
    """Flag that prevents further tasks from starting."""

    is_set = False


def _wait_for(futures: list[Future[None]], stop: _StopFlag) -> list[Future[None]]:
    """Wait until no future is running, even if interrupted repeatedly.

    The memory that running calls write to must remain valid until then. Futures that have not
    started because the threads are busy with another caller are canceled.

    Args:
        futures: Submitted calls.
        stop: Flag that makes running calls return early.

    Returns:
        Futures that were executed.
    """
    interrupt: BaseException | None = None
    while True:
        try:
            started = [future for future in futures if not future.cancel()]
            wait(started)
            break
        except BaseException as error:
            stop.is_set = True
            interrupt = error
    if interrupt is not None:
        raise interrupt
    return started


@cache
def _thread_pool(n: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of n threads for one process; forked processes do not inherit threads."""
    return ThreadPoolExecutor(n, "native", _initialize_thread, (_free_cores(),))


def _initialize_thread(cores: set[int]) -> None:
    """Initialize a worker thread and bind it to the given cores, if any."""
    if cores:
        os.sched_setaffinity(0, cores)
    # OpenMP's threads spin on their cores while they wait for PyTorch's next call, and leave no
    # core to ours. They stop spinning when there are more OpenMP threads than cores: so one of our
    # threads starts a second OpenMP team.
    if _first_thread_lock(os.getpid()).acquire(blocking=False):
        _start_openmp_threads()


@cache
def _first_thread_lock(process: int) -> Lock:
    """Return a lock that only the first thread of a process acquires."""
    return Lock()


def _start_openmp_threads() -> None:
    """Run a parallel operation, so that OpenMP starts its threads."""
    torch.zeros(2**20).add_(1)


def _free_cores() -> set[int]:
    """Return the cores to which OpenMP has bound its other threads; empty if there are none.

    A new thread inherits the affinity of its creator. With `OMP_PROC_BIND`, all worker threads
    would therefore share the core of the calling thread.
    """
    is_bound = os.environ.get("OMP_PROC_BIND", "false").lower() != "false"
    if not is_bound or not hasattr(os, "sched_getaffinity"):
        return set()
    _start_openmp_threads()  # one on each core that OpenMP may use
    cores: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            cores |= os.sched_getaffinity(int(thread))
    return cores - os.sched_getaffinity(0)


def split_range(n: int, multiple: int, work: int) -> list[tuple[int, int]]:
    """Split a range into parts to be processed by several threads.

    A range with very little work is not split, and a range with little work is split into two parts
    per thread. Otherwise the parts get smaller toward the end of the range, down to MIN_TASK_WORK,
    so that all threads finish at about the same time even if some are slower.

    Args:
        n: Size of the range, which starts at 0.
        multiple: The size of every part except the last is a multiple of this.
        work: Number of operations (multiplications, additions or writes) per element of the range.

    Returns:
        Start and end of each part.
    """
    n_threads = torch.get_num_threads()
    n_parts = 2 * n_threads if n_threads > 1 and n * work >= MIN_THREADED_WORK else 1
    least = min(-(-n // n_parts), MIN_TASK_WORK // max(1, work))
    parts, first = [], 0
    while first < n:
        width = max(multiple, round_up(max(least, -(-(n - first) // n_parts)), multiple))
        parts.append((first, min(first + width, n)))
        first += width
    return parts


# ----------------------------------------------------------------------------- products


class PackedWeights(NamedTuple):
    """Packed weights of a product (rows, k) x (k, n), with one scale per column for int8."""

    values: Tensor
    scale: Tensor
    n: int
    k: int


def pack_weight(
    weight: Tensor,
    number_format: NumberFormat,
    layout: str = "matrix",
    rearrange: Callable[[Tensor], Tensor] = lambda weight: weight,
    block: int | None = None,
) -> PackedWeights:
    """Return a weight packed for products in a number format, cached until the weight changes.

    Args:
        weight: Weight, which `rearrange` maps to shape (n, k).
        number_format: Number format of the products.
        layout: Cache key that identifies `rearrange` and `block`.
        rearrange: Function that reorders rows and columns.
        block: Number of columns that are multiplied as one block. Default: all columns.
    """

    def pack(weight: Tensor) -> PackedWeights:
        return pack_matrix(rearrange(weight.detach()), number_format, block)

    return pack_once(weight, f"{layout} {number_format}", pack)


def pack_matrix(
    matrix: Tensor, number_format: NumberFormat, block: int | None = None
) -> PackedWeights:
    """Pack a matrix (n, k) without caching it; see `pack_weight`."""
    n = round_up(len(matrix), PANEL)
    k = round_up(matrix.shape[1], DEPTH_MULTIPLES[number_format])
    padding = (0, k - matrix.shape[1], 0, n - len(matrix))
    matrix = functional.pad(matrix, padding).contiguous()
    values, scale = allocate_aligned(n * k * BYTES_PER_NUMBER[number_format]), torch.ones(n)
    native_function("pack")(
        FORMAT_IDS[number_format],
        ctypes.c_void_p(matrix.data_ptr()),
        ctypes.c_long(n),
        ctypes.c_long(k),
        ctypes.c_long(block or k),
        ctypes.c_void_p(values.data_ptr()),
        ctypes.c_void_p(scale.data_ptr()),
    )
    return PackedWeights(values, scale, n, k)


def interleave(n_parts: int, rows: Tensor) -> Tensor:
    """Interleave the parts of a matrix: 16 rows of each part in turn, then the next 16 rows."""
    return rows.view(n_parts, -1, TILE, *rows.shape[1:]).transpose(0, 1).flatten(0, 2)


class PackedRows(NamedTuple):
    """Input rows packed for matrix products, with one scale per row for int8."""

    values: Tensor
    scale: Tensor
    n: int


def gather_rows(
    table: Tensor,
    index: Tensor | None,
    number_format: NumberFormat,
    *,
    in_parallel: bool = False,
) -> PackedRows:
    """Pack rows of a table as the input of a matrix product.

    Args:
        table: Contiguous table, (rows, k).
        index: Rows to pack. Default: all.
        number_format: Number format of the product.
        in_parallel: Whether to use all threads instead of only the calling thread.
    """
    n, k = len(table) if index is None else len(index), table.shape[1]
    n_bytes = round_up(n, ROW_MULTIPLE) * k * BYTES_PER_NUMBER[number_format]
    rows = PackedRows(allocate_aligned(n_bytes), torch.empty(n), n)

    def write(first: int, last: int) -> None:
        native_function("gather")(
            FORMAT_IDS[number_format],
            ctypes.c_void_p(table.data_ptr()),
            None if index is None else ctypes.c_void_p(index.data_ptr()),
            ctypes.c_long(first),
            ctypes.c_long(last),
            ctypes.c_long(k),
            ctypes.c_void_p(rows.values.data_ptr()),
            ctypes.c_void_p(rows.scale.data_ptr()),
        )

    if in_parallel:
        run_tasks(partial(write, *part) for part in split_range(n, ROW_MULTIPLE, k))
    else:
        write(0, n)
    return rows


class _ProductArgs(ctypes.Structure):
    """The struct `product_args` in native.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "k", "n", "first", "last", "epilogue")),
        *(
            (name, ctypes.c_void_p)
            for name in ("a", "a_scale", "w", "w_scale", "bias", "x", "out", "sums")
        ),
    )


class Epilogue(IntEnum):
    """Operation applied to a product after adding the bias. The values match native.c."""

    NONE = 0
    """Output (rows, n), float32."""
    GATES = 1
    """Output (n / 64, rows, 64), bfloat16 for the formats bfloat16 and int8."""
    HIGHWAY = 2
    """Output (rows, n / 2) of a highway layer; transform and gate weights are interleaved."""


def multiply(
    rows: PackedRows,
    weights: PackedWeights,
    bias: Tensor,
    number_format: NumberFormat,
    out: int,
    columns: tuple[int, int],
    epilogue: Epilogue = Epilogue.NONE,
    x: Tensor | None = None,
) -> None:
    """Multiply packed rows by a range of columns of packed weights and add the bias.

    Args:
        rows: Packed rows.
        weights: Packed weights.
        bias: Bias in the order of the packed columns, (n,).
        number_format: Number format of rows and weights.
        out: Address of the output.
        columns: First column and end column (exclusive).
        epilogue: Operation applied to the result.
        x: Contiguous input of the highway layer, (rows, n / 2). Only for `Epilogue.HIGHWAY`.
    """
    args = _ProductArgs(
        rows=rows.n,
        k=weights.k,
        n=weights.n,
        first=columns[0],
        last=columns[1],
        epilogue=epilogue,
        a=rows.values.data_ptr(),
        a_scale=rows.scale.data_ptr(),
        w=weights.values.data_ptr(),
        w_scale=weights.scale.data_ptr(),
        bias=bias.data_ptr(),
        x=None if x is None else x.data_ptr(),
        out=out,
        sums=scratch("sums", ROW_BLOCK * MAX_SUMS * 4),
    )
    native_function(f"product_{number_format}")(ctypes.byref(args))
