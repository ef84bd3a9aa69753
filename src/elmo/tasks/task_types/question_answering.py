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
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.scores.question_answering_scores import F1Unit, answer_scores
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.task import BaseTask, TextGroup, paired_text_groups, to_words


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
    n_indicators: ClassVar[int] = 2
    target_description: ClassVar[str] = "answers, and a passage with the places of its words"

    def __init__(
        self,
        max_answer_words: int,
        window: int,
        overlap: int,
        has_unanswerable: bool,
        f1_unit: F1Unit = "words",
    ) -> None:
        """Say what an answer may be.

        Args:
            max_answer_words: its words at most.
            window: words of a passage that are read at a time.
            overlap: words that a window shares with the one before.
            has_unanswerable: whether there are questions without one.
            f1_unit: what F1 counts.
        """
        self.max_answer_words, self.window, self.overlap = max_answer_words, window, overlap
        self.has_unanswerable, self.f1_unit = has_unanswerable, f1_unit
        self.metric = "f1"
        self.metrics: tuple[str, ...] = ("exact_match", "f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind that a config says; examples tell whether some have no answer."""
        dials = config.question_answering
        has_unanswerable = any(not example.target.texts for example in examples)
        return cls(
            dials.max_answer_words, dials.window, dials.overlap, has_unanswerable, dials.f1_unit
        )

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has answers and a passage."""
        return isinstance(example.target, GoldAnswers) and isinstance(example.extra, Passage)

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of a question and a passage, raw or split already."""
        question, passage = texts
        words = to_words(passage, split)
        text = passage if isinstance(passage, str) else " ".join(passage)
        return Example((to_words(question, split), words), extra=Passage.align(text, words))

    def split_example(self, example: Example) -> list[Example]:
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

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give questions and passages, the words marked that both have."""
        return paired_text_groups(examples)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give nothing: what is chosen from is the passage."""
        return []

    def n_choices(self, labels: Sequence[str]) -> int:
        """Give how many spans a window has at most."""
        return self.window * self.max_answer_words

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        return QuestionAnsweringHead(dim=dim, max_answer_words=self.max_answer_words, config=config)

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give first words and those after the last, (batch, 2), -1 for no answer."""
        return torch.tensor([example.target.word_range or (-1, -1) for example in examples])

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give the spans of windows as they were found."""
        return list(outputs)

    def merge_predictions(
        self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]
    ) -> Any:
        """Give the span that stands highest above no answer in its window."""
        piece, best = max(
            zip(pieces, answers, strict=True),
            key=lambda pair: pair[1].log_probability - pair[1].log_none,
        )
        if self.has_unanswerable and best.log_none > best.log_probability:
            return SpanAnswer("", None, None, math.exp(best.log_none))
        places = piece.extra.word_offsets
        start, end = places[best.start][0], places[best.end - 1][1]
        return SpanAnswer(piece.extra.text[start:end], start, end, math.exp(best.log_probability))

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give exact match and F1 as SQuAD's own program computes them."""
        gold = [example.target.texts for example in examples]
        found = answer_scores(gold, [answer.text for answer in answers], self.f1_unit)
        return {"exact_match": found.exact_match, "f1": found.f1}

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the question, the answer, its place in the raw passage and its probability."""
        return {
            "question": " ".join(example.words),
            "answer": answer.text,
            "start": answer.start,
            "end": answer.end,
            "score": round(answer.score, 6),
        }

    def to_settings(self) -> dict[str, Any]:
        """Give what `make_task` makes the same kind of again."""
        return {
            "max_answer_words": self.max_answer_words,
            "window": self.window,
            "overlap": self.overlap,
            "has_unanswerable": self.has_unanswerable,
            "f1_unit": self.f1_unit,
        }
