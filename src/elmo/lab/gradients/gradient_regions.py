"""Where the gradient of a curve has vanished or exploded."""

from collections.abc import Sequence
from dataclasses import dataclass

# A gradient has vanished below 1 / FACTOR and exploded above FACTOR times its norm at step 0.
FACTOR = 100.0


@dataclass(frozen=True)
class GradientRegions:
    """Description of a curve of gradient norms.

    Attributes:
        vanishes_at: First number of steps back at which the gradient has vanished, or None.
        explodes_at: First number of steps back at which it has exploded, or None.
    """

    vanishes_at: int | None
    explodes_at: int | None


def gradient_regions(norms: Sequence[float]) -> GradientRegions:
    """Describe a curve of norms, which starts with step 0."""
    return GradientRegions(
        vanishes_at=next((k for k, norm in enumerate(norms) if norm < norms[0] / FACTOR), None),
        explodes_at=next((k for k, norm in enumerate(norms) if norm > norms[0] * FACTOR), None),
    )
