"""Targets of question answering."""

from dataclasses import dataclass

from elmo.tasks.core.example import IndexRange


@dataclass(frozen=True)
class GoldAnswers:
    """All correct answers, and the word range of the first in the passage; none if unanswerable."""

    texts: tuple[str, ...] = ()
    word_range: IndexRange | None = None
