"""Tagging: a tag for each word of a text."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Self

from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.errors import InputError
from elmo.tasks import spans
from elmo.tasks.examples import Example
from elmo.tasks.heads.label_heads import SoftmaxTaggingHead, TaggingHead, pad_tags
from elmo.tasks.scores.label_scores import label_scores, span_scores
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.task import BaseTask


class Tagging(BaseTask):
    """A tag for each word; where tags are parts of spans, spans are what counts."""

    target_description: ClassVar[str] = "a tag for each word"
    # Words of an entity told apart as its first, inner and last ones, and those that stand alone.
    learned: ClassVar[str] = spans.BIOES

    def __init__(self, scheme: str = spans.NONE) -> None:
        """Say how tags are to be read.

        Args:
            scheme: of the examples.
        """
        self.scheme = scheme
        self.has_spans = scheme != spans.NONE
        self.metric = "span_f1" if self.has_spans else "accuracy"
        spanned = ("span_precision", "span_recall", "span_f1") if self.has_spans else ()
        self.metrics: tuple[str, ...] = ("accuracy", *spanned)

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind for the scheme that the tags of examples are in."""
        with telling_where(examples):
            kind = cls(scheme_of([example.target for example in examples], config))
            # All tags are read once, so that one the scheme has not is told with its place.
            kind.labels(examples)
        return kind

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has tags."""
        return isinstance(example.target, tuple)

    def _learned(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Give the tags that are learned for those of an example."""
        return _converted(tags, self.scheme, self.learned) if self.has_spans else tags

    def weight(self, example: Example) -> float:
        """Count each word alike."""
        return float(len(example.words))

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give all tags there are; outside of spans a word may always be."""
        always = {spans.OUTSIDE} if self.has_spans else set()
        return sorted({tag for one in examples for tag in self._learned(one.target)} | always)

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        if not config.crf:
            return SoftmaxTaggingHead(dim=dim, n_tags=len(labels))
        allowed = spans.allowed_transitions(self.learned, labels) if self.has_spans else None
        return TaggingHead(dim=dim, n_tags=len(labels), allowed=allowed)

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the numbers of tags, (batch, time), 0 at padding."""
        tags = [[numbers[tag] for tag in self._learned(example.target)] for example in examples]
        return pad_tags(tags, max(map(len, tags)))

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give tags as the examples have them."""
        answers = []
        for row in outputs:
            tags = [labels[number] for number in row]
            if self.has_spans:
                tags = list(spans.convert(tags, self.learned, self.scheme))
            answers.append(tuple(tags))
        return answers

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give the share of right tags and, where there are spans, their precision and recall."""
        gold = [example.target for example in examples]
        if not self.has_spans:
            found = label_scores(
                [tag for tags in gold for tag in tags], [tag for tags in answers for tag in tags]
            )
            return {"accuracy": found.accuracy}
        with telling_where(examples):
            gold = spans.to_scheme(gold, self.scheme)
        by_span = span_scores(gold, answers, self.scheme)
        return {
            "accuracy": by_span.accuracy,
            "span_precision": by_span.precision,
            "span_recall": by_span.recall,
            "span_f1": by_span.f1,
        }

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give words and tags, and the spans where there are some."""
        plain: dict[str, Any] = {"words": list(example.words), "tags": list(answer)}
        if self.has_spans:
            found = spans.to_spans(answer, self.scheme)
            plain["spans"] = [span.to_dict(example.words) for span in found]
        return plain

    def to_settings(self) -> dict[str, Any]:
        """Give what `make_task` makes the same kind of again."""
        return {"scheme": self.scheme}


@contextmanager
def telling_where(examples: Sequence[Example]) -> Iterator[None]:
    """Say of a tag that does not belong where it stands in which file and line that is."""
    try:
        yield
    except spans.InvalidTag as error:
        places = (
            f"{example.word_location(number)}: "
            for example in examples
            for number, tag in enumerate(example.target)
            if tag == error.tag and example.word_location(number)
        )
        raise InputError(f"{next(places, '')}{error}") from None


def scheme_of(tags: Sequence[Sequence[str]], config: TaskConfig) -> str:
    """Give the scheme that is named, or the one that tags are in."""
    named = config.examples.scheme
    return spans.detect_scheme(tags) if named == "auto" else named


@lru_cache(maxsize=2**17)
def _converted(tags: tuple[str, ...], scheme: str, learned: str) -> tuple[str, ...]:
    """Convert tags, once for all epochs: it is the better half of making a batch."""
    return tuple(spans.convert(tags, scheme, learned))
