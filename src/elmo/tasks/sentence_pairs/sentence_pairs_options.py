"""Options of sentence pair classification."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.tasks import TaskOptions


@dataclass(frozen=True)
class SentencePairsOptions(TaskOptions):
    """Sentence pairs."""

    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Metric for model selection."""
