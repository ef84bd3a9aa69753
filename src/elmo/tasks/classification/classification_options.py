"""Options of classification."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.tasks import TaskOptions
from elmo.errors import ConfigError


@dataclass(frozen=True)
class ClassificationOptions(TaskOptions):
    """Classification."""

    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Metric for model selection."""
    char_ngrams: int = 0
    """Maximum length of character n-grams in a linear classifier whose predictions are averaged
    with those of the BiLSTM. 0: no such classifier."""
    ngram_buckets: int = 262_144
    """Number of hash buckets for character n-grams. Each bucket takes 4 bytes per label."""

    def __post_init__(self) -> None:
        if not 0 <= self.char_ngrams <= 8:
            raise ConfigError(f"char_ngrams must be from 0 to 8 (got {self.char_ngrams}).")
        if not 1 <= self.ngram_buckets <= 2**24:
            raise ConfigError(
                f"ngram_buckets must be from 1 to 16,777,216 (got {self.ngram_buckets})."
            )
