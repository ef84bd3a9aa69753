"""State of the rows of a native LSTM call, and ranges of its time steps."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from elmo.kernels.native_ffi import allocate_aligned, native_function


class RowState(NamedTuple):
    """State and outputs of a range of rows, updated by the native kernel.

    Attributes:
        batch: Number of rows per step in `outputs`.
        h: Hidden states, (rows, out).
        cells: Cell states in the layout of native.c, (cell / 16, rows, 16).
        outputs: Outputs, (time, rows, out).
    """

    batch: int
    h: Tensor
    cells: Tensor
    outputs: Tensor


def blocked_cells(c: Tensor) -> Tensor:
    """Return a copy of contiguous cell states in the layout of native.c."""
    cells = allocate_aligned(c.numel() * c.element_size())
    reorder_cells(c, cells, is_reverse=False)
    return cells


def reorder_cells(c: Tensor, cells: Tensor, *, is_reverse: bool) -> None:
    """Copy cell states c, (rows, cell), to the layout of native.c, or back if `is_reverse`."""
    native_function("reorder_cells")(
        ctypes.c_void_p(c.data_ptr()),
        ctypes.c_void_p(cells.data_ptr()),
        ctypes.c_long(c.shape[0]),
        ctypes.c_long(c.shape[1]),
        is_reverse,
    )


def split_steps(counts: Sequence[int], max_positions: int, steps: range) -> Iterator[range]:
    """Split steps into ranges of at most `max_positions` positions, but at least one step each."""
    start, total = steps.start, 0
    for step in steps:
        if step > start and total + counts[step] > max_positions:
            yield range(start, step)
            start, total = step, 0
        total += counts[step]
    yield range(start, steps.stop)
