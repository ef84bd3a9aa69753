"""Tagging: predicts one tag per word."""

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import ClassVar, Generic, Self

from torch import Tensor

from elmo.config import TaskEncoderConfig
from elmo.config.tasks import TaskOptions
from elmo.errors import InputError
from elmo.progress import format_count
from elmo.tasks.core.example import Example, gold
from elmo.tasks.core.label_report import LabelReport, describe_counts, label_report
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.core.task import Answer, Record, Target, TrainedTask
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.tagging import spans
from elmo.tasks.tagging.span_scores import span_report, span_scores
from elmo.tasks.tagging.tagging_heads import SoftmaxTaggingHead, TaggingHead, pad_tags
from elmo.tasks.tagging.tagging_options import TaggingOptions

logger = logging.getLogger(__name__)

# One tag per word.
Tags = tuple[str, ...]


class TagPredictor(TrainedTask[Target, Answer, list[int]], Generic[Target, Answer]):
    """Base class of tasks whose model predicts one tag per word."""

    # Scheme of the tags that the model predicts. BIOES distinguishes the first, inner and last word
    # of an entity, and single-word entities.
    model_scheme: ClassVar[str] = spans.BIOES

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.has_spans = scheme != spans.NONE

    @abstractmethod
    def gold_tags(self, part: Example[Target]) -> Tags:
        """Return the tags of a part that has a target."""

    @abstractmethod
    def tag_sequences(self, example: Example[Target]) -> list[Tags]:
        """Return the sequences of tags in the target of an example."""

    def _model_tags(self, part: Example[Target]) -> Tags:
        """Return the tags of a part in the scheme that the model predicts."""
        tags = self.gold_tags(part)
        return _convert(tags, self.scheme, self.model_scheme) if self.has_spans else tags

    def weight(self, part: Example[Target]) -> float:
        """Return the number of words, so that every word has the same weight in the loss."""
        return float(len(part.words))

    def labels(self, examples: Sequence[Example[Target]]) -> list[str]:
        """Return the tags that the model can predict, in sorted order.

        With a span scheme these are all tags for the span labels of the examples: a name of one
        word can occur in a text even if all names of the training set have two.
        """
        parts = [part for example in examples for part in self.split_example(example)]
        tags = {tag for part in parts for tag in self._model_tags(part)}
        if not self.has_spans:
            return sorted(tags)
        return spans.all_tags(spans.span_labels(tags), self.model_scheme)

    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[list[int]]:
        """Create the head."""
        assert isinstance(options, TaggingOptions)
        if not options.crf:
            return SoftmaxTaggingHead(dim=dim, n_tags=len(labels))
        allowed = spans.allowed_transitions(self.model_scheme, labels) if self.has_spans else None
        return TaggingHead(dim=dim, n_tags=len(labels), allowed=allowed)

    def describe_labels(self, labels: Sequence[str], examples: Sequence[Example[Target]]) -> str:
        """Return the types of spans with their counts, and the tag scheme of the examples."""
        if not self.has_spans:
            return super().describe_labels(labels, examples)
        counts = Counter(
            span.label
            for example in examples
            for tags in self.tag_sequences(example)
            for span in spans.to_spans(tags, self.scheme)
        )
        return f"{describe_counts(counts, 'type')}; tag scheme {self.scheme}"

    def targets(self, parts: Sequence[Example[Target]], label_ids: Mapping[str, int]) -> Tensor:
        """Return the tag indices, (batch, time); 0 at padding."""
        tags = [[label_ids[tag] for tag in self._model_tags(part)] for part in parts]
        return pad_tags(tags, max(map(len, tags)))

    def predicted_tags(self, output: Sequence[int], labels: Sequence[str]) -> Tags:
        """Convert an output of the head to tags in the scheme of the examples."""
        tags = [labels[number] for number in output]
        if self.has_spans:
            tags = spans.convert(tags, self.model_scheme, self.scheme)
        return tuple(tags)


class Tagging(TagPredictor[Tags, Tags]):
    """Predicts one tag per word; if the tags encode spans, the main score is span F1."""

    target_description: ClassVar[str] = "one tag per word"
    empty_answer: Tags = ()
    labeled_unit: ClassVar[str] = "words"

    def __init__(self, scheme: str = spans.NONE) -> None:
        """Set the tag scheme and the metrics for it."""
        super().__init__(scheme)
        self.metric = "span_f1" if self.has_spans else "accuracy"
        span_metrics = ("span_precision", "span_recall", "span_f1") if self.has_spans else ()
        self.metrics: tuple[str, ...] = ("accuracy", *span_metrics)

    @classmethod
    def from_examples(cls, examples: Sequence[Example[Tags]], options: TaskOptions) -> Self:
        """Create the task with the tag scheme of its options or detected in the examples."""
        with locating_invalid_tags(examples):
            task = cls(choose_scheme([gold(example) for example in examples], options))
            # Parse all tags once, so that the error for an invalid tag names its location.
            task.labels(examples)
            if task.has_spans:
                warn_about_misplaced_tags(examples, task.scheme)
        return task

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the example has tags."""
        return isinstance(example.target, tuple)

    def gold_tags(self, part: Example[Tags]) -> Tags:
        """Return the tags of an example."""
        return gold(part)

    def tag_sequences(self, example: Example[Tags]) -> list[Tags]:
        """Return the tags of an example in a list."""
        return [gold(example)]

    def answer(
        self,
        example: Example[Tags],
        parts: Sequence[Example[Tags]],
        outputs: Sequence[list[int]],
        labels: Sequence[str],
    ) -> Tags:
        """Return the predicted tags in the tag scheme of the data."""
        (output,) = outputs
        return self.predicted_tags(output, labels)

    def scores(
        self, examples: Sequence[Example[Tags]], answers: Sequence[Tags]
    ) -> dict[str, float]:
        """Return the tag accuracy and, with a span scheme, span precision, recall and F1."""
        tags = self._tags_in_scheme(examples)
        if not self.has_spans:
            return {"accuracy": label_scores(_flat(tags), _flat(answers)).accuracy}
        by_span = span_scores(tags, answers, self.scheme)
        return {
            "accuracy": by_span.accuracy,
            "span_precision": by_span.total.precision,
            "span_recall": by_span.total.recall,
            "span_f1": by_span.total.f1,
        }

    def report(self, examples: Sequence[Example[Tags]], answers: Sequence[Tags]) -> LabelReport:
        """Return the scores by label of spans or, without a span scheme, by tag of words."""
        tags = self._tags_in_scheme(examples)
        if self.has_spans:
            by_span = span_scores(tags, answers, self.scheme)
            return span_report(tags, answers, self.scheme, by_span.labels)
        words, predicted = _flat(tags), _flat(answers)
        return label_report(words, predicted, label_scores(words, predicted).labels)

    def _tags_in_scheme(self, examples: Sequence[Example[Tags]]) -> Sequence[Sequence[str]]:
        """Return the gold tags of each example, in the tag scheme of the training data."""
        tags = [gold(example) for example in examples]
        if not self.has_spans:
            return tags
        with locating_invalid_tags(examples):
            return spans.to_scheme(tags, self.scheme)

    def to_record(self, example: Example[Tags], answer: Tags) -> Record:
        """Return the words, the tags and, with a span scheme, the spans."""
        record: Record = {"words": list(example.words), "tags": list(answer)}
        if self.has_spans:
            predicted = spans.to_spans(answer, self.scheme)
            record["spans"] = [span.to_dict(example.words) for span in predicted]
        return record


def _flat(tags: Sequence[Sequence[str]]) -> list[str]:
    """Return the tags of all words."""
    return [tag for sentence in tags for tag in sentence]


@contextmanager
def locating_invalid_tags(examples: Sequence[Example[Tags]]) -> Iterator[None]:
    """Convert an `InvalidTag` raised in the block to an error with file and line of the tag."""
    try:
        yield
    except spans.InvalidTag as error:
        locations = (
            f"{example.word_location(number)}: "
            for example in examples
            for number, tag in enumerate(gold(example))
            if tag == error.tag and example.word_location(number)
        )
        raise InputError(f"{next(locations, '')}{error}") from None


def warn_about_misplaced_tags(examples: Sequence[Example[Tags]], scheme: str) -> None:
    """Warn about tags that do not fit after the tag before them, such as one with a typo."""
    misplaced = [
        (example, index)
        for example in examples
        for index in spans.misplaced_tags(gold(example), scheme)
    ]
    if not misplaced:
        return
    example, index = misplaced[0]
    location = example.word_location(index) or f"text {example.id}, at word {index}"
    problem = f"not allowed by the scheme {scheme} after the tag of the previous word"
    if scheme == spans.IOB2:
        problem = "without B- at the start of a span: read as its start"
    logger.warning(
        "%s %s. The first is %r (%s).",
        format_count(len(misplaced), "tag"),
        problem,
        gold(example)[index],
        location,
    )


def choose_scheme(tags: Sequence[Sequence[str]], options: TaskOptions) -> str:
    """Return the tag scheme set in the options; with `auto`, detect it from the tags."""
    assert isinstance(options, TaggingOptions)
    return spans.detect_scheme(tags) if options.scheme == "auto" else options.scheme


@lru_cache(maxsize=2**17)
def _convert(tags: Tags, scheme: str, model_scheme: str) -> Tags:
    """Convert tags; cached, because conversion dominates the time to build a batch."""
    return tuple(spans.convert(tags, scheme, model_scheme))
