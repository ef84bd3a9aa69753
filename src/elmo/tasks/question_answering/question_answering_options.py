"""Options of question answering."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.bounds import require_at_least_one
from elmo.config.tasks import TaskOptions
from elmo.errors import ConfigError


@dataclass(frozen=True)
class QuestionAnsweringOptions(TaskOptions):
    """Question answering."""

    max_answer_words: int = 30
    """Maximum length of an answer in words."""
    window: int = 400
    """Maximum number of words read at a time. Longer passages are split into overlapping
    windows."""
    overlap: int = 100
    """Number of words shared by consecutive windows."""
    f1_unit: Literal["words", "characters"] = "words"
    """Unit of the F1 score: words, as in SQuAD, or characters, as in KorQuAD."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "max_answer_words")
        if not 0 <= self.overlap < self.window:
            raise ConfigError(
                f"overlap ({self.overlap}) must be 0 or more and smaller than window "
                f"({self.window})."
            )
