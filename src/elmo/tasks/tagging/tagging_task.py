"""Tagging: predicts one tag per word."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Self

from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.errors import InputError
from elmo.tasks.core.example import Example
from elmo.tasks.core.label_report import LabelReport, label_report
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.core.task import BaseTask
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.tagging import spans
from elmo.tasks.tagging.span_scores import span_report, span_scores
from elmo.tasks.tagging.tagging_heads import SoftmaxTaggingHead, TaggingHead, pad_tags


class Tagging(BaseTask):
    """Predicts one tag per word; if the tags encode spans, the main score is span F1."""

    target_description: ClassVar[str] = "one tag per word"
    # Scheme of the tags that the model predicts. BIOES distinguishes the first, inner and last word
    # of an entity, and single-word entities.
    model_scheme: ClassVar[str] = spans.BIOES

    def __init__(self, scheme: str = spans.NONE) -> None:
        """Set the tag scheme and the metrics for it.

        Args:
            scheme: Tag scheme of the examples.
        """
        self.scheme = scheme
        self.has_spans = scheme != spans.NONE
        self.metric = "span_f1" if self.has_spans else "accuracy"
        span_metrics = ("span_precision", "span_recall", "span_f1") if self.has_spans else ()
        self.metrics: tuple[str, ...] = ("accuracy", *span_metrics)

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Create the task with the tag scheme set in the config or detected in the examples."""
        with locating_invalid_tags(examples):
            task = cls(choose_scheme([example.target for example in examples], config))
            # Parse all tags once, so that the error for an invalid tag names its location.
            task.labels(examples)
        return task

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether the example has tags."""
        return isinstance(example.target, tuple)

    def _model_tags(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Convert the tags of an example to the scheme that the model predicts."""
        return _convert(tags, self.scheme, self.model_scheme) if self.has_spans else tags

    def weight(self, example: Example) -> float:
        """Return the number of words, so that every word has the same weight in the loss."""
        return float(len(example.words))

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the distinct tags in sorted order; with a span scheme, O is always included."""
        always = {spans.OUTSIDE} if self.has_spans else set()
        return sorted(
            {tag for example in examples for tag in self._model_tags(example.target)} | always
        )

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors of size `dim`."""
        if not config.crf:
            return SoftmaxTaggingHead(dim=dim, n_tags=len(labels))
        allowed = spans.allowed_transitions(self.model_scheme, labels) if self.has_spans else None
        return TaggingHead(dim=dim, n_tags=len(labels), allowed=allowed)

    def targets(self, examples: Sequence[Example], label_ids: Mapping[str, int]) -> Tensor:
        """Return the tag indices, (batch, time); 0 at padding."""
        tags = [
            [label_ids[tag] for tag in self._model_tags(example.target)] for example in examples
        ]
        return pad_tags(tags, max(map(len, tags)))

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Return the predicted tags of each example in the tag scheme of the data."""
        predictions = []
        for row in outputs:
            tags = [labels[number] for number in row]
            if self.has_spans:
                tags = list(spans.convert(tags, self.model_scheme, self.scheme))
            predictions.append(tuple(tags))
        return predictions

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return the tag accuracy and, with a span scheme, span precision, recall and F1."""
        gold = self._gold_tags(examples)
        if not self.has_spans:
            return {"accuracy": label_scores(_flat(gold), _flat(predictions)).accuracy}
        by_span = span_scores(gold, predictions, self.scheme)
        return {
            "accuracy": by_span.accuracy,
            "span_precision": by_span.precision,
            "span_recall": by_span.recall,
            "span_f1": by_span.f1,
        }

    def report(self, examples: Sequence[Example], predictions: Sequence[Any]) -> LabelReport | None:
        """Return the scores by label of spans or, without a span scheme, by tag of words."""
        gold = self._gold_tags(examples)
        if self.has_spans:
            by_span = span_scores(gold, predictions, self.scheme)
            return span_report(gold, predictions, self.scheme, by_span.labels)
        words, predicted = _flat(gold), _flat(predictions)
        return label_report(words, predicted, label_scores(words, predicted).labels)

    def _gold_tags(self, examples: Sequence[Example]) -> Sequence[Sequence[str]]:
        """Return the gold tags of each example, in the tag scheme of the training data."""
        gold = [example.target for example in examples]
        if not self.has_spans:
            return gold
        with locating_invalid_tags(examples):
            return spans.to_scheme(gold, self.scheme)

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return the words, the tags and, with a span scheme, the spans."""
        record: dict[str, Any] = {"words": list(example.words), "tags": list(prediction)}
        if self.has_spans:
            predicted = spans.to_spans(prediction, self.scheme)
            record["spans"] = [span.to_dict(example.words) for span in predicted]
        return record

    def to_settings(self) -> dict[str, Any]:
        """Return the settings that `make_task` needs to recreate this task."""
        return {"scheme": self.scheme}


def _flat(tags: Sequence[Sequence[str]]) -> list[str]:
    """Return the tags of all words."""
    return [tag for sentence in tags for tag in sentence]


@contextmanager
def locating_invalid_tags(examples: Sequence[Example]) -> Iterator[None]:
    """Convert an `InvalidTag` raised in the block to an error with file and line of the tag."""
    try:
        yield
    except spans.InvalidTag as error:
        locations = (
            f"{example.word_location(number)}: "
            for example in examples
            for number, tag in enumerate(example.target)
            if tag == error.tag and example.word_location(number)
        )
        raise InputError(f"{next(locations, '')}{error}") from None


def choose_scheme(tags: Sequence[Sequence[str]], config: TaskConfig) -> str:
    """Return the tag scheme set in the config; with `auto`, detect it from the tags."""
    scheme = config.examples.scheme
    return spans.detect_scheme(tags) if scheme == "auto" else scheme


@lru_cache(maxsize=2**17)
def _convert(tags: tuple[str, ...], scheme: str, model_scheme: str) -> tuple[str, ...]:
    """Convert tags; cached, because conversion dominates the time to build a batch."""
    return tuple(spans.convert(tags, scheme, model_scheme))
