"""Classification: one label for a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.tasks.examples import Example
from elmo.tasks.heads.label_heads import ClassificationHead
from elmo.tasks.scores.label_scores import label_scores
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.task import BaseTask


@dataclass(frozen=True)
class LabelPrediction:
    """A label and how sure the model is of it and of all others."""

    label: str
    probabilities: dict[str, float]


class Classification(BaseTask):
    """One label for a text."""

    target_description: ClassVar[str] = "a label"

    def __init__(self, metric: str = "accuracy") -> None:
        """Choose models by accuracy or by macro_f1."""
        self.metric = metric
        self.metrics: tuple[str, ...] = ("accuracy", "macro_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind that a config says."""
        return cls(config.metric)

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has a label."""
        return isinstance(example.target, str)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give all labels there are."""
        return sorted({str(example.target) for example in examples})

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        return ClassificationHead(
            dim=dim,
            n_labels=len(labels),
            dropout=config.dropout,
            ngram_buckets=config.ngram_buckets if config.char_ngrams else 0,
        )

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the numbers of labels, (batch,)."""
        return torch.tensor([numbers[example.target] for example in examples])

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give labels with their probabilities."""
        answers = []
        for row in outputs:
            probabilities = dict(zip(labels, row, strict=True))
            answers.append(
                LabelPrediction(max(probabilities, key=probabilities.__getitem__), probabilities)
            )
        return answers

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give accuracy and macro F1."""
        found = label_scores(
            [example.target for example in examples], [answer.label for answer in answers]
        )
        return {"accuracy": found.accuracy, "macro_f1": found.macro_f1}

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the label and its probabilities, the likeliest first."""
        ordered = sorted(answer.probabilities.items(), key=lambda item: -item[1])
        return {
            "words": list(example.words),
            "label": answer.label,
            "probabilities": {name: round(value, 6) for name, value in ordered},
        }

    def to_settings(self) -> dict[str, Any]:
        """Give what `make_task` makes the same kind of again."""
        return {"metric": self.metric}
