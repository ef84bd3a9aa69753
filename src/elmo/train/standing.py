"""Where a run stands, beside its weights: what the loop itself keeps in checkpoints."""

import math
from dataclasses import dataclass, field

import torch

from elmo.errors import TrainingError
from elmo.evaluate.perplexity import Perplexity, perplexity_of

# A loss this many nats above a multiple of what was expected is no noise.
DIVERGED = 3.0
ADVICE = (
    "nothing was saved since. Try a lower --learning-rate, a longer --warmup-steps, or a lower "
    "--clip-norm, with another --out"
)


@dataclass
class Standing:
    """What the loop itself knows, kept in checkpoints.

    Attributes:
        step: steps done.
        seconds: time spent.
        sums: losses of both directions since the last line of the log.
        n_summed: steps in them.
        lowest: lowest loss logged.
        best: sums of the best evaluation, as `measure` gives them.
        n_worse: evaluations since the best one.
        evaluated: step of the last evaluation.
        before: sums of the evaluation that later ones are compared with, when fine-tuning.
    """

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0])
    n_summed: int = 0
    lowest: float = math.inf
    best: list[float] = field(default_factory=list)
    n_worse: int = 0
    evaluated: int = -1
    before: list[float] = field(default_factory=list)

    @property
    def best_perplexity(self) -> Perplexity | None:
        """The best evaluation so far."""
        return _perplexity(self.best)

    @property
    def first_perplexity(self) -> Perplexity | None:
        """The evaluation before fine-tuning."""
        return _perplexity(self.before)

    def check_loss(self, loss: float, norm: float = 0.0) -> None:
        """Stop a run whose loss or gradient is no number, or has left all it was before."""
        if math.isfinite(loss) and math.isfinite(norm) and loss <= 3 * self.lowest + DIVERGED:
            return
        raise TrainingError(
            f"training diverged before step {self.step:,}: loss {loss:.4g}, gradient norm "
            f"{norm:.4g}, where {self.lowest:.4g} was reached or could be guessed; {ADVICE}"
        )

    def check_held_out(self, loss: float, n_words: int) -> None:
        """Stop a run whose held-out loss is no number, or twice that of a blind guess.

        Args:
            loss: mean of both directions.
            n_words: of the softmax.
        """
        guess = math.log(n_words)
        if not loss <= 2 * guess + DIVERGED:
            raise TrainingError(
                f"training diverged before step {self.step:,}: the held-out loss is {loss:.4g}, "
                f"that of a blind guess {guess:.4g}; {ADVICE}"
            )


def _perplexity(sums: list[float]) -> Perplexity | None:
    return perplexity_of(torch.tensor(sums, dtype=torch.float64)) if sums else None
