"""Where a run stands, beside its weights: what the loop itself keeps in checkpoints."""

import math
from dataclasses import dataclass, field

from elmo.errors import TrainingError

# A loss this many nats above a multiple of what was expected is no noise.
DIVERGENCE_MARGIN = 3.0
DIVERGENCE_ADVICE = (
    "nothing was saved since. Try a lower --learning-rate, a longer --warmup-steps, or a lower "
    "--clip-norm, with another --out"
)


@dataclass
class RunState:
    """What the loop itself knows, kept in checkpoints.

    Attributes:
        step: steps done.
        seconds: time spent.
        sums: losses since the last line of the log, one for each loss of a step.
        n_summed: steps in them.
        lowest: lowest loss logged.
        best: numbers of the best evaluation, as the work measured them; none before the first.
        n_worse: evaluations since the best one, not counted while all have come to the same: such
            a model has not begun to learn.
        has_moved: whether they have not.
        evaluated: step of the last evaluation.
        before: numbers of the evaluation that later ones are compared with.
    """

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=list)
    n_summed: int = 0
    lowest: float = math.inf
    best: list[float] = field(default_factory=list)
    n_worse: int = 0
    has_moved: bool = False
    evaluated: int = -1
    before: list[float] = field(default_factory=list)

    def check_loss(self, loss: float, norm: float = 0.0) -> None:
        """Stop a run whose loss or gradient is no number, or has left all it was before."""
        if math.isfinite(loss) and math.isfinite(norm) and loss <= 3 * self.lowest + DIVERGENCE_MARGIN:
            return
        raise TrainingError(
            f"training diverged before step {self.step:,}: loss {loss:.4g}, gradient norm "
            f"{norm:.4g}, where {self.lowest:.4g} was reached or could be guessed; {DIVERGENCE_ADVICE}"
        )
