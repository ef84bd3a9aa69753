"""What a kernel is given and gives: one layer in one direction, and its walk over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LSTMCall:
    """One layer in one direction, with its input and its state: all that a kernel needs of it.

    At padding the state stays as it is and the output is 0, so padding on the right is crossed by
    the reversed direction before its first real step, with the initial state untouched. Padding
    is told by a mask, or, where rows are sorted by falling length and the host knows it, by the
    number of rows still active at each step: then it need not be computed at all.

    Attributes:
        x: input, (time, batch, dim), or with `index` (vectors, dim).
        weight_ih: input weights, (4 * cell, dim), gates in the order i, f, g, o.
        weight_hh: recurrent weights, (4 * cell, projection).
        bias: (4 * cell), the forget bias included.
        weight_hr: projection, (projection, cell), or None where both widths are equal.
        h: initial output, (batch, projection).
        c: initial cell, (batch, cell); its precision is kept.
        mask: true at real positions, (time, batch).
        active: rows still active at each step, never growing; the mask is not looked at then.
        cell_clip: bound of the cell.
        projection_clip: bound of the projected output; ignored without projection.
        reverse: walk from the last step to the first.
        index: which vector of x stands where, (time, batch).
        resets: true where the state is zero before the step, (time, batch).
    """

    x: Tensor
    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    weight_hr: Tensor | None
    h: Tensor
    c: Tensor
    mask: Tensor
    active: Sequence[int] | None
    cell_clip: float | None
    projection_clip: float | None
    reverse: bool
    index: Tensor | None = None
    resets: Tensor | None = None


Walk = tuple[Tensor, Tensor, Tensor]
"""What a direction gives: outputs (time, batch, projection), final h and final c."""
