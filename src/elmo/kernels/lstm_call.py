"""Arguments and result type shared by all LSTM kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LSTMCall:
    """Arguments of a kernel call that runs one layer in one direction.

    At padding positions the state does not change and the output is 0. The reversed direction,
    which reaches the padding on the right first, therefore starts its first real step from the
    initial state.

    Padding is specified by a mask. If the rows are sorted by decreasing length and the lengths are
    known on the host, it can also be specified by the number of active rows at each step; padding
    is then not computed.

    Attributes:
        x: Input, (time, batch, dim), or (vectors, dim) with `index`.
        weight_ih: Input weights, (4 * cell, dim), gates in the order i, f, g, o.
        weight_hh: Recurrent weights, (4 * cell, projection).
        bias: Bias including the forget bias, (4 * cell,).
        weight_hr: Projection, (projection, cell), or None if both widths are equal.
        h: Initial hidden state, (batch, projection).
        c: Initial cell state, (batch, cell). The final cell state has the same dtype.
        mask: True at real positions, (time, batch).
        active: Number of active rows at each step, never increasing. If given, the mask is ignored.
        cell_clip: Maximum absolute value of the cell. None: no clipping.
        projection_clip: Maximum absolute value of the projected output. None: no clipping. Ignored
            without a projection.
        reverse: Whether to process the steps from last to first.
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

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that the result is differentiable in: input, weights and state."""
        tensors = (self.x, self.weight_ih, self.weight_hh, self.bias, self.h, self.c)
        return tensors if self.weight_hr is None else (*tensors, self.weight_hr)


LSTMResult = tuple[Tensor, Tensor, Tensor]
"""Result of one direction: outputs (time, batch, projection), final h and final c."""
