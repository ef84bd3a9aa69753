"""Where a run stands, beside its weights: what the loop itself keeps in checkpoints."""

import math
from dataclasses import dataclass, field

import torch

from elmo.evaluate.perplexity import Perplexity, perplexity_of


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


def _perplexity(sums: list[float]) -> Perplexity | None:
    return perplexity_of(torch.tensor(sums, dtype=torch.float64)) if sums else None
