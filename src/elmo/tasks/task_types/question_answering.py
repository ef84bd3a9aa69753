"""Answers: a piece of a passage that answers a question, or the word that there is none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.tasks.examples import Example, GoldAnswers, Passage
from elmo.tasks.frozen_layers import Words
from elmo.tasks.heads.question_answering_head import QuestionAnsweringHead
from elmo.tasks.readers.raw_text import Split
from elmo.tasks.scores.question_answering_scores import F1Unit, answer_scores
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.task import BaseTask, TextGroup, marked_pairs, to_words


@dataclass(frozen=True)
class SpanAnswer:
    """What a passage answers.

    Attributes:
        text: a piece of the passage as it was written; empty for no answer.
        start: its first character; None for no answer.
        end: the character after its last.
        score: probability of it, among all spans of its window and no answer.
    """

    text: str
    start: int | None
    end: int | None
    score: float


class QuestionAnswering(BaseTask):
    """A span of the second text that answers the first."""

    n_texts: ClassVar[int] = 2
    # Whether the other text has the word too.
    n_marks: ClassVar[int] = 2
    expects: ClassVar[str] = "answers, and a passage with the places of its words"

    def __init__(
        self, longest: int, window: int, overlap: int, may_be_none: bool, f1_unit: F1Unit = "words"
    ) -> None:
        """Say what an answer may be.

        Args:
            longest: its words at most.
            window: words of a passage that are read at a time.
            overlap: words that a window shares with the one before.
            may_be_none: whether there are questions without one.
            f1_unit: what F1 counts.
        """
        self.longest, self.window, self.overlap = longest, window, overlap
        self.may_be_none, self.f1_unit = may_be_none, f1_unit
        self.metric = "f1"
        self.metrics: tuple[str, ...] = ("exact_match", "f1")

    @classmethod
    def of(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind that a config says; examples tell whether some have no answer."""
        dials = config.question_answering
        may_be_none = any(not example.target.texts for example in examples)
        return cls(dials.max_answer_words, dials.window, dials.overlap, may_be_none, dials.f1_unit)

    @staticmethod
    def fits(example: Example) -> bool:
        """Tell whether an example has answers and a passage."""
        return isinstance(example.target, GoldAnswers) and isinstance(example.extra, Passage)

    @staticmethod
    def asked(texts: Sequence[str | Sequence[str]], split: Split) -> Example:
        """Make an example of a question and a passage, raw or split already."""
        question, passage = texts
        words = to_words(passage, split)
        text = passage if isinstance(passage, str) else " ".join(passage)
        return Example((to_words(question, split), words), extra=Passage.align(text, words))

    def pieces(self, example: Example) -> list[Example]:
        """Cut a long passage into windows; one without the answer is as if there was none."""
        question, passage = example.texts
        if len(passage) <= self.window:
            return [example]
        last = len(passage) - self.window
        firsts = [*range(0, last, self.window - self.overlap), last]
        return [self._window(example, question, passage, first) for first in firsts]

    def _window(self, example: Example, question: Words, passage: Words, first: int) -> Example:
        seen = slice(first, first + self.window)
        target = example.target
        if target is not None:
            target = GoldAnswers()
            place = example.target.word_range
            if place is not None and seen.start <= place[0] and place[1] <= seen.stop:
                target = replace(example.target, word_range=(place[0] - first, place[1] - first))
        given = replace(example.extra, word_offsets=example.extra.word_offsets[seen])
        return Example((question, passage[seen]), target, example.id, given)

    def groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give questions and passages, the words marked that both have."""
        return marked_pairs(examples)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give nothing: what is chosen from is the passage."""
        return []

    def n_choices(self, labels: Sequence[str]) -> int:
        """Give how many spans a window has at most."""
        return self.window * self.longest

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        return QuestionAnsweringHead(dim=dim, longest=self.longest, config=config)

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give first words and those after the last, (batch, 2), -1 for no answer."""
        return torch.tensor([example.target.word_range or (-1, -1) for example in examples])

    def answers(self, found: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give the spans of windows as they were found."""
        return list(found)

    def joined(self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]) -> Any:
        """Give the span that stands highest above no answer in its window."""
        piece, best = max(
            zip(pieces, answers, strict=True),
            key=lambda pair: pair[1].log_probability - pair[1].log_none,
        )
        if self.may_be_none and best.log_none > best.log_probability:
            return SpanAnswer("", None, None, math.exp(best.log_none))
        places = piece.extra.word_offsets
        start, end = places[best.start][0], places[best.end - 1][1]
        return SpanAnswer(piece.extra.text[start:end], start, end, math.exp(best.log_probability))

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give exact match and F1 as SQuAD's own program computes them."""
        gold = [example.target.texts for example in examples]
        found = answer_scores(gold, [answer.text for answer in answers], self.f1_unit)
        return {"exact_match": found.exact_match, "f1": found.f1}

    def record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the question, the answer, its place in the raw passage and its probability."""
        return {
            "question": " ".join(example.words),
            "answer": answer.text,
            "start": answer.start,
            "end": answer.end,
            "score": round(answer.score, 6),
        }

    def settings(self) -> dict[str, Any]:
        """Give what `make_kind` makes the same kind of again."""
        return {
            "longest": self.longest,
            "window": self.window,
            "overlap": self.overlap,
            "may_be_none": self.may_be_none,
            "f1_unit": self.f1_unit,
        }
