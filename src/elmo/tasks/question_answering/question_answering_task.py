"""Extractive question answering: finds the span of a passage that answers a question, if any."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from elmo.config import TaskEncoderConfig
from elmo.config.tasks import TaskOptions
from elmo.tasks.core.example import Example, Words, gold
from elmo.tasks.core.passage import Passage
from elmo.tasks.core.task import Record, Text, TextGroup, TrainedTask, paired_text_groups, to_words
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.question_answering.question_answering_head import (
    PredictedSpan,
    QuestionAnsweringHead,
)
from elmo.tasks.question_answering.question_answering_options import QuestionAnsweringOptions
from elmo.tasks.question_answering.question_answering_scores import F1Unit, answer_scores
from elmo.text.line_splitter import SplitFunction


@dataclass(frozen=True)
class SpanAnswer:
    """A predicted answer: a substring of the raw passage, empty if there is no answer.

    Start and end, which is exclusive, are character indices, or None. The score is the probability
    in its window, where all spans and "no answer" sum to 1; 0 if the question or the passage has no
    words.
    """

    text: str
    start: int | None
    end: int | None
    score: float


class QuestionAnswering(TrainedTask[GoldAnswers, SpanAnswer, PredictedSpan]):
    """Finds the span of the passage (second text) that answers the question (first text)."""

    n_inputs: ClassVar[int] = 2
    n_texts: ClassVar[int | None] = 2
    # 1 if the word also occurs in the other text, else 0.
    n_indicators: ClassVar[int] = 2
    target_description: ClassVar[str] = "answers, and a passage with the positions of its words"
    empty_answer = SpanAnswer("", None, None, 0.0)

    def __init__(
        self,
        max_answer_words: int,
        window: int,
        overlap: int,
        has_unanswerable: bool,
        f1_unit: F1Unit = "words",
    ) -> None:
        """Store the settings; passages longer than `window` words are split into windows.

        Consecutive windows have `overlap` words in common. `f1_unit` is "words" or "characters".
        """
        self.max_answer_words, self.window, self.overlap = max_answer_words, window, overlap
        self.has_unanswerable, self.f1_unit = has_unanswerable, f1_unit
        self.metric = "f1"
        self.metrics: tuple[str, ...] = ("exact_match", "f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example[GoldAnswers]], options: TaskOptions) -> Self:
        """Create the task; `has_unanswerable` is true if any example has no answer."""
        assert isinstance(options, QuestionAnsweringOptions)
        has_unanswerable = any(not gold(example).texts for example in examples)
        return cls(
            options.max_answer_words,
            options.window,
            options.overlap,
            has_unanswerable,
            options.f1_unit,
        )

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the example has gold answers and a passage."""
        return isinstance(example.target, GoldAnswers) and isinstance(example.extra, Passage)

    @classmethod
    def make_example(cls, texts: Sequence[Text], split: SplitFunction) -> Example[GoldAnswers]:
        """Create an example from a question and a passage, each either raw or tokenized."""
        question, passage = texts
        words = to_words(passage, split)
        text = passage if isinstance(passage, str) else " ".join(words)
        return Example((to_words(question, split), words), extra=Passage.align(text, words))

    def split_example(self, example: Example[GoldAnswers]) -> list[Example[GoldAnswers]]:
        """Split a long passage into windows; those without the answer count as unanswerable."""
        question, passage = example.texts
        if len(passage) <= self.window:
            return [example]
        last = len(passage) - self.window
        starts = [*range(0, last, self.window - self.overlap), last]
        return [self._window(example, question, passage, start) for start in starts]

    def _window(
        self, example: Example[GoldAnswers], question: Words, passage: Words, start: int
    ) -> Example[GoldAnswers]:
        window = slice(start, start + self.window)
        target = example.target
        if target is not None:
            target = GoldAnswers()
            answer = gold(example).word_range
            if answer is not None and window.start <= answer[0] and answer[1] <= window.stop:
                target = replace(gold(example), word_range=(answer[0] - start, answer[1] - start))
        raw = passage_of(example)
        extra = replace(raw, word_offsets=raw.word_offsets[window])
        return Example((question, passage[window]), target, example.id, extra)

    def text_groups(self, parts: Sequence[Example[GoldAnswers]]) -> list[TextGroup]:
        """Return the questions and the passages; words that occur in both have the indicator 1."""
        return paired_text_groups(parts)

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the maximum number of candidate spans in a window."""
        return self.window * self.max_answer_words

    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[PredictedSpan]:
        """Create the head."""
        return QuestionAnsweringHead(
            dim=dim, max_answer_words=self.max_answer_words, config=encoder
        )

    def targets(
        self, parts: Sequence[Example[GoldAnswers]], label_ids: Mapping[str, int]
    ) -> Tensor:
        """Return the word ranges of the answers, (batch, 2); -1 if there is no answer."""
        return torch.tensor([gold(part).word_range or (-1, -1) for part in parts])

    def answer(
        self,
        example: Example[GoldAnswers],
        parts: Sequence[Example[GoldAnswers]],
        outputs: Sequence[PredictedSpan],
        labels: Sequence[str],
    ) -> SpanAnswer:
        """Return the answer from the window where it is most likely compared to "no answer"."""
        part, best = max(
            zip(parts, outputs, strict=True),
            key=lambda pair: pair[1].log_probability - pair[1].log_none,
        )
        if self.has_unanswerable and best.log_none > best.log_probability:
            return SpanAnswer("", None, None, math.exp(best.log_none))
        passage = passage_of(part)
        start = passage.word_offsets[best.start][0]
        end = passage.word_offsets[best.end - 1][1]
        return SpanAnswer(passage.text[start:end], start, end, math.exp(best.log_probability))

    def scores(
        self, examples: Sequence[Example[GoldAnswers]], answers: Sequence[SpanAnswer]
    ) -> dict[str, float]:
        """Return the exact match and F1 scores as defined by SQuAD."""
        texts = [gold(example).texts for example in examples]
        scores = answer_scores(texts, [answer.text for answer in answers], self.f1_unit)
        return {"exact_match": scores.exact_match, "f1": scores.f1}

    def to_record(self, example: Example[GoldAnswers], answer: SpanAnswer) -> Record:
        """Return the question, the answer, its position in the raw passage and its probability."""
        return {
            "question": " ".join(example.words),
            "answer": answer.text,
            "start": answer.start,
            "end": answer.end,
            "score": round(answer.score, 6),
        }


def passage_of(example: Example[object]) -> Passage:
    """Return the passage of an example with the positions of its words."""
    assert isinstance(example.extra, Passage)
    return example.extra
