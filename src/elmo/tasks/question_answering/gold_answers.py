"""Targets of question answering."""

from dataclasses import dataclass

from elmo.tasks.core.example import IndexRange


@dataclass(frozen=True)
class GoldAnswers:
    """The correct answers to a question.

    Attributes:
        texts: All correct answers; empty if the passage does not answer the question.
        word_range: Word range of the first answer in the passage; None if there is no answer.
    """

    texts: tuple[str, ...] = ()
    word_range: IndexRange | None = None
