"""Options of sentence pair classification."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.tasks import TaskOptions

# Names of the text columns in known data sets.
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("sentence_A", "sentence_B"),
)


@dataclass(frozen=True)
class SentencePairsOptions(TaskOptions):
    """Sentence pairs."""

    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Metric for model selection."""
