"""Norms of the gradients of the weights, before and after clipping."""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.lab.gradients.backward_norms import LARGEST_NORM
from elmo.lab.gradients.measured_network import MeasuredNetwork
from elmo.lab.gradients.text_windows import TextWindows, warmed_up_state
from elmo.train.optim import clip_gradients


@dataclass(frozen=True)
class ClippedNorms:
    """Total gradient norms of the weights for several segments.

    Attributes:
        before: Norm before clipping, per segment.
        after: Norm after clipping, per segment.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def share(self) -> float:
        """Share of segments whose gradient is clipped."""
        return sum(b > a for b, a in zip(self.before, self.after, strict=True)) / len(self.before)


def clipped_norms(
    network: MeasuredNetwork, windows: TextWindows, batch_size: int, clip_norm: float
) -> ClippedNorms:
    """Compute the gradients of the mean loss of segments, and clip them as in training.

    Args:
        network: The network.
        windows: Windows of a text; consecutive ones are the rows of a segment.
        batch_size: Number of rows of a segment.
        clip_norm: Maximum norm; 0: no clipping.
    """
    network = network.trainable_copy()
    parameters = network.parameters()
    before, after = [], []
    state = warmed_up_state(network, windows)
    inputs, targets = windows.inputs[windows.warm_up :], windows.targets[windows.warm_up :]
    for rows in torch.split(torch.arange(windows.n_windows), batch_size):
        output, _ = network.run(inputs[:, rows], state.select(rows))
        losses = network.losses(output.flatten(0, 1), targets[:, rows].flatten())
        found = torch.autograd.grad(losses.mean(), parameters, allow_unused=True)
        # In double precision, because the squares of exploding gradients overflow.
        gradients = [gradient.double() for gradient in found if gradient is not None]
        before.append(_finite(clip_gradients(gradients, clip_norm)))
        after.append(_finite(torch.stack([gradient.norm() for gradient in gradients]).norm()))
    return ClippedNorms(tuple(before), tuple(after))


def _finite(norm: Tensor) -> float:
    """Return a norm; one that is infinite or not a number counts as the largest norm."""
    return min(float(norm.nan_to_num(LARGEST_NORM)), LARGEST_NORM)
