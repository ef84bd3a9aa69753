"""State of the training loop that is stored in checkpoints."""

import math
from dataclasses import dataclass, field

from elmo.errors import TrainingError

# Training counts as diverged if a loss exceeds a multiple of the expected one by so many nats.
DIVERGENCE_MARGIN = 3.0
DIVERGENCE_ADVICE = (
    "The diverged model was not saved. Try a lower --learning-rate, more --warmup-steps, or a "
    "lower --clip-norm, with another --out."
)
# With --max-rollbacks: rise of the loss that counts as divergence, and the learning-rate factor.
MAX_RISE = 0.3
ROLLBACK_RATE_FACTOR = 0.7


class Diverged(TrainingError):
    """Raised when training diverged; the run can return to its last checkpoint."""


@dataclass
class RunState:
    """State of the training loop, stored in checkpoints.

    Attributes:
        step: Number of completed steps.
        seconds: Training time in seconds.
        sums: Sum of each training loss since the last log entry.
        n_summed: Number of steps included in `sums`.
        lowest: Lowest logged loss.
        best: Return value of `Trainable.measure` for the best evaluation; empty before the first
            evaluation.
        n_worse: Number of evaluations since the best one. Evaluations are not counted until their
            results differ, since until then the model has not started to learn.
        has_moved: Whether there have been evaluations with different results.
        has_nan: Whether the result of an evaluation was NaN.
        evaluated: Step of the last evaluation; -1 before the first one.
        before: Return value of `Trainable.measure` for the evaluation that serves as the baseline.
        n_rollbacks: How often the run has returned to a checkpoint because it diverged.
    """

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=list)
    n_summed: int = 0
    lowest: float = math.inf
    best: list[float] = field(default_factory=list)
    n_worse: int = 0
    has_moved: bool = False
    has_nan: bool = False
    evaluated: int = -1
    before: list[float] = field(default_factory=list)
    n_rollbacks: int = 0

    @property
    def rate_factor(self) -> float:
        """Factor applied to the scheduled learning rate."""
        return ROLLBACK_RATE_FACTOR**self.n_rollbacks

    def check_loss(self, loss: float, norm: float = 0.0, max_rise: float = math.inf) -> None:
        """Raise an error if a number is not finite, or the loss rose more than `max_rise`."""
        highest = min(3 * self.lowest + DIVERGENCE_MARGIN, self.lowest + max_rise)
        if math.isfinite(loss) and math.isfinite(norm) and loss <= highest:
            return
        raise Diverged(
            f"Training diverged before step {self.step:,}: loss {loss:.4g}, gradient norm "
            f"{norm:.4g}. The lowest loss so far, or that of uniform guessing, is "
            f"{self.lowest:.4g}. {DIVERGENCE_ADVICE}"
        )
