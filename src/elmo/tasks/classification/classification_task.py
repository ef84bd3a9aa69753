"""Text classification: predicts one label per text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.tasks.classification.classification_head import ClassificationHead
from elmo.tasks.core.example import Example
from elmo.tasks.core.label_report import LabelReport, label_report
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.core.task import BaseTask
from elmo.tasks.core.task_model import TaskHead


@dataclass(frozen=True)
class LabelPrediction:
    """A predicted label and the probabilities of all labels; None and none without words."""

    label: str | None
    probabilities: dict[str, float]


class Classification(BaseTask):
    """Predicts one label per text."""

    target_description: ClassVar[str] = "a label"
    empty_prediction: ClassVar[Any] = LabelPrediction(None, {})

    def __init__(self, metric: str = "accuracy") -> None:
        """Set the metric used for model selection: accuracy or macro_f1."""
        self.metric = metric
        self.metrics: tuple[str, ...] = ("accuracy", "macro_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Create the task with the metric from the config."""
        return cls(config.metric)

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether the example has a label."""
        return isinstance(example.target, str)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the distinct labels of the examples in sorted order."""
        return sorted({str(example.target) for example in examples})

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors of size `dim`."""
        return ClassificationHead(
            dim=dim,
            n_labels=len(labels),
            dropout=config.dropout,
            ngram_buckets=config.ngram_buckets if config.char_ngrams else 0,
        )

    def targets(self, examples: Sequence[Example], label_ids: Mapping[str, int]) -> Tensor:
        """Return the label indices, (batch,)."""
        return torch.tensor([label_ids[example.target] for example in examples])

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Return the most likely label and all label probabilities for each example."""
        predictions = []
        for row in outputs:
            probabilities = dict(zip(labels, row, strict=True))
            predictions.append(
                LabelPrediction(max(probabilities, key=probabilities.__getitem__), probabilities)
            )
        return predictions

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return accuracy and macro F1."""
        scores = label_scores(*_label_lists(examples, predictions))
        return {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}

    def report(self, examples: Sequence[Example], predictions: Sequence[Any]) -> LabelReport:
        """Return the scores by label and the confusion matrix."""
        gold, predicted = _label_lists(examples, predictions)
        return label_report(gold, predicted, label_scores(gold, predicted).labels)

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return the words, the label and all label probabilities in descending order."""
        ordered = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
        return {
            "words": list(example.words),
            "label": prediction.label,
            "probabilities": {name: round(value, 6) for name, value in ordered},
        }

    def to_settings(self) -> dict[str, Any]:
        """Return the settings that `make_task` needs to recreate this task."""
        return {"metric": self.metric}


def _label_lists(
    examples: Sequence[Example], predictions: Sequence[LabelPrediction]
) -> tuple[list[str], list[str]]:
    """Return the gold labels and the predicted labels."""
    return [example.target for example in examples], [p.label or "" for p in predictions]
