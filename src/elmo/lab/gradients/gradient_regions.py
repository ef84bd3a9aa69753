"""Where the gradient of a curve has vanished or exploded."""

from collections.abc import Sequence
from dataclasses import dataclass

# A gradient has vanished below 1 / FACTOR and exploded above FACTOR times its norm at step 0.
FACTOR = 100.0
# The factor per step is measured after this step: the first steps also depend on the softmax.
FIRST_STEP = 10


@dataclass(frozen=True)
class GradientRegions:
    """Description of a curve of gradient norms.

    Attributes:
        vanishes_at: First number of steps back at which the gradient has vanished, or None.
        explodes_at: First number of steps back at which it has exploded, or None.
        factor_per_step: Mean factor by which the norm changes per step back.
    """

    vanishes_at: int | None
    explodes_at: int | None
    factor_per_step: float


def gradient_regions(norms: Sequence[float]) -> GradientRegions:
    """Describe a curve of norms, which starts with step 0."""
    begin = min(FIRST_STEP, len(norms) - 1)
    n_steps = len(norms) - 1 - begin
    if not n_steps:  # a short curve
        begin, n_steps = 0, max(1, len(norms) - 1)
    return GradientRegions(
        vanishes_at=next((k for k, norm in enumerate(norms) if norm < norms[0] / FACTOR), None),
        explodes_at=next((k for k, norm in enumerate(norms) if norm > norms[0] * FACTOR), None),
        factor_per_step=(norms[-1] / norms[begin]) ** (1 / n_steps),
    )
