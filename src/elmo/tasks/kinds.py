"""The kinds of tasks: what is learned from an example, what is answered, how it is scored.

A data set is a config; a kind is code. A new one says what its labels are, which head finds them,
what its targets are in numbers, what an answer is in words, and what it is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from elmo.config import TaskKind
from elmo.errors import ConfigError, InputError
from elmo.tasks import spans
from elmo.tasks.examples import Example
from elmo.tasks.heads import ClassificationHead, TaggingHead, padded_tags
from elmo.tasks.model import Head
from elmo.tasks.scores import label_scores, span_scores

# Words of an entity told apart as its first, inner and last ones, and those that stand alone.
LEARNED_SCHEME = "BIOES"


class Kind(Protocol):
    """What the frame asks of a kind of task."""

    measure: str
    """Name of the score a model is chosen by."""
    measures: tuple[str, ...]
    """Names of all scores, in the order `scores` gives them."""

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give what a head chooses from."""

    def head(self, dim: int, labels: Sequence[str], dropout: float) -> Head:
        """Make a head for vectors of a width."""

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the targets of a batch by the numbers of labels."""

    def answers(self, found: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give in words what a head found in numbers."""

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Compare answers with what is right."""

    def record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give an answer as plain data, to be written down."""

    def settings(self) -> dict[str, Any]:
        """Give what `make_kind` makes the same kind of again."""


@dataclass(frozen=True)
class LabelAnswer:
    """A label and how sure the model is of it and of all others."""

    label: str
    probabilities: dict[str, float]


class Classification:
    """One label for a text."""

    def __init__(self, measure: str = "accuracy") -> None:
        """Choose models by accuracy or by macro_f1."""
        self.measure = measure
        self.measures: tuple[str, ...] = ("accuracy", "macro_f1")

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give all labels there are."""
        return sorted({str(example.target) for example in examples})

    def head(self, dim: int, labels: Sequence[str], dropout: float) -> Head:
        """Make a head for vectors of a width."""
        return ClassificationHead(dim=dim, n_labels=len(labels), dropout=dropout)

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the numbers of labels, (batch,)."""
        return torch.tensor([numbers[example.target] for example in examples])

    def answers(self, found: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give labels with their probabilities."""
        answers = []
        for row in found:
            probabilities = dict(zip(labels, row, strict=True))
            answers.append(
                LabelAnswer(max(probabilities, key=probabilities.__getitem__), probabilities)
            )
        return answers

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give accuracy and macro F1."""
        found = label_scores(
            [example.target for example in examples], [answer.label for answer in answers]
        )
        return {"accuracy": found.accuracy, "macro_f1": found.macro_f1}

    def record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the label and its probabilities, the likeliest first."""
        ordered = sorted(answer.probabilities.items(), key=lambda item: -item[1])
        return {
            "words": list(example.words),
            "label": answer.label,
            "probabilities": {name: round(value, 6) for name, value in ordered},
        }

    def settings(self) -> dict[str, Any]:
        """Give what `make_kind` makes the same kind of again."""
        return {"measure": self.measure}


class Tagging:
    """A tag for each word; where tags are parts of spans, spans are what counts."""

    def __init__(self, scheme: str = spans.NONE) -> None:
        """Say how tags are to be read.

        Args:
            scheme: of the examples.
        """
        self.scheme = scheme
        self.has_spans = scheme != spans.NONE
        self.measure = "span_f1" if self.has_spans else "accuracy"
        spanned = ("span_precision", "span_recall", "span_f1") if self.has_spans else ()
        self.measures: tuple[str, ...] = ("accuracy", *spanned)

    def _learned(self, tags: Sequence[str]) -> Sequence[str]:
        """Give the tags that are learned for those of an example."""
        return spans.convert(tags, self.scheme, LEARNED_SCHEME) if self.has_spans else tags

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give all tags there are; outside of spans a word may always be."""
        always = {spans.OUTSIDE} if self.has_spans else set()
        return sorted({tag for one in examples for tag in self._learned(one.target)} | always)

    def head(self, dim: int, labels: Sequence[str], dropout: float) -> Head:
        """Make a head for vectors of a width."""
        allowed = spans.allowed(LEARNED_SCHEME, labels) if self.has_spans else None
        return TaggingHead(dim=dim, n_tags=len(labels), allowed=allowed)

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the numbers of tags, (batch, time), 0 at padding."""
        tags = [[numbers[tag] for tag in self._learned(example.target)] for example in examples]
        return padded_tags(tags, max(map(len, tags)))

    def answers(self, found: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give tags as the examples have them."""
        answers = []
        for row in found:
            tags = [labels[number] for number in row]
            if self.has_spans:
                tags = list(spans.convert(tags, LEARNED_SCHEME, self.scheme))
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
        by_span = span_scores(gold, answers, self.scheme)
        return {
            "accuracy": by_span.accuracy,
            "span_precision": by_span.precision,
            "span_recall": by_span.recall,
            "span_f1": by_span.f1,
        }

    def record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give words and tags, and the spans where there are some."""
        plain: dict[str, Any] = {"words": list(example.words), "tags": list(answer)}
        if self.has_spans:
            plain["spans"] = [
                {
                    "text": " ".join(example.words[span.start : span.end]),
                    "label": span.label,
                    "start": span.start,
                    "end": span.end,
                }
                for span in spans.to_spans(answer, self.scheme)
            ]
        return plain

    def settings(self) -> dict[str, Any]:
        """Give what `make_kind` makes the same kind of again."""
        return {"scheme": self.scheme}


KINDS: dict[str, type[Classification] | type[Tagging]] = {
    "classification": Classification,
    "tagging": Tagging,
}


def make_kind(task: TaskKind, settings: Mapping[str, Any]) -> Kind:
    """Make a kind of task anew from its settings."""
    if task not in KINDS:
        raise ConfigError(f"task is {task!r}; expected one of {', '.join(KINDS)}")
    kind: Kind = KINDS[task](**settings)
    return kind


def check_targets(task: TaskKind, examples: Sequence[Example]) -> None:
    """Refuse examples of another kind of task, or without an answer."""
    for example in examples:
        wanted = str if task == "classification" else tuple
        if not isinstance(example.target, wanted):
            raise InputError(
                f"{task}: the example {example.id or ' '.join(example.words)[:40]!r} has "
                f"{example.target!r} for its target, expected "
                f"{'a label' if wanted is str else 'a tag for each word'}"
            )


def kind_for(task: TaskKind, examples: Sequence[Example], measure: str = "accuracy") -> Kind:
    """Make the kind of task that examples are for.

    Args:
        task: its name.
        examples: to learn from and to choose by.
        measure: score that models for classification are chosen by.
    """
    check_targets(task, examples)
    if task == "tagging":
        scheme = spans.detect_scheme([example.target for example in examples])
        return make_kind(task, {"scheme": scheme})
    return make_kind(task, {"measure": measure})
