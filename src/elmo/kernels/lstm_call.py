"""The call that all LSTM kernels take: one layer in one direction, and the result type."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LSTMCall:
    """One layer in one direction with its weights, input and initial state.

    At padding the state is kept and the output is 0. So the reversed direction, which reaches the
    padding on the right first, begins its first real step with the initial state.

    Padding is given by a mask. If rows are sorted by decreasing length, it can also be given by the
    number of active rows of each step, as known on the host; then padding need not be computed.

    Attributes:
        x: Input, (time, batch, dim), or (vectors, dim) with `index`.
        weight_ih: Input weights, (4 * cell, dim), gates in the order i, f, g, o.
        weight_hh: Recurrent weights, (4 * cell, projection).
        bias: Bias including the forget bias, (4 * cell,).
        weight_hr: Projection, (projection, cell), or None if both widths are equal.
        h: Initial hidden state, (batch, projection).
        c: Initial cell state, (batch, cell). Its dtype is kept.
        mask: True at real positions, (time, batch).
        active: Number of active rows at each step, never increasing. If given, the mask is ignored.
        cell_clip: Bound of the cell.
        projection_clip: Bound of the projected output. Ignored without projection.
        reverse: Process the steps from last to first.
        index: Row of `x` at each position, (time, batch).
        resets: True where the state is set to zero before the step, (time, batch).
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


LSTMResult = tuple[Tensor, Tensor, Tensor]
"""Result of one direction: outputs (time, batch, projection), final h and final c."""
