"""Python interface to `native.c`: precisions, scratch memory and matrix products."""

import ctypes
from collections.abc import Callable
from enum import IntEnum
from functools import cache, partial
from threading import local
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.native_library import library
from elmo.kernels.native_structs import ProductArgs
from elmo.kernels.native_threads import round_up, run_tasks, split_range

# Format of the operands of a product. "float32" has IEEE float32 products; "int8x3" approximates
# them by three int8 digits per number.
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


@cache
def can_compute(number_format: NumberFormat) -> bool:
    """Whether the native library is available and this CPU supports products in a number format."""
    loaded = library()
    return loaded is not None and bool(loaded.supports(FORMAT_IDS[number_format]))


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

# ----------------------------------------------------------------------------- products


class PackedWeights(NamedTuple):
    """Packed weights of a product (rows, k) x (k, n), with one scale per column for int8."""

    values: Tensor
    scale: Tensor
    n: int
    k: int


def pack_matrix(
    matrix: Tensor, number_format: NumberFormat, block: int | None = None
) -> PackedWeights:
    """Pack a matrix (n, k) in a number format for products of `block` columns, or of all."""
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
    """Pack rows of a contiguous table (rows, k), by default all, with one or all threads."""
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
    args = ProductArgs(
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
