"""Text classification: predicts one label per text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from elmo.config import TaskEncoderConfig
from elmo.config.tasks import TaskOptions
from elmo.tasks.classification.classification_head import ClassificationHead
from elmo.tasks.classification.classification_options import ClassificationOptions
from elmo.tasks.core.char_ngrams import CharNgrams
from elmo.tasks.core.example import Example, gold
from elmo.tasks.core.label_report import LabelReport, label_report
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.core.task import Record, TrainedTask
from elmo.tasks.core.task_model import TaskHead


@dataclass(frozen=True)
class LabelPrediction:
    """A predicted label and the probabilities of all labels; None and none without words."""

    label: str | None
    probabilities: dict[str, float]


class Classification(TrainedTask[str, LabelPrediction, list[float]]):
    """Predicts one label per text."""

    empty_answer = LabelPrediction(None, {})
    labeled_unit: ClassVar[str] = "examples"

    target_description: ClassVar[str] = "a label"

    def __init__(self, metric: str = "accuracy") -> None:
        """Set the metric used for model selection: accuracy or macro_f1."""
        self.metric = metric
        self.metrics: tuple[str, ...] = ("accuracy", "macro_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example[str]], options: TaskOptions) -> Self:
        """Create the task with the metric from its options."""
        assert isinstance(options, ClassificationOptions)
        return cls(options.metric)

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the example has a label."""
        return isinstance(example.target, str)

    def labels(self, examples: Sequence[Example[str]]) -> list[str]:
        """Return the distinct labels of the examples in sorted order."""
        return sorted({str(example.target) for example in examples})

    def char_ngrams(self, options: TaskOptions) -> CharNgrams | None:
        """Return the n-grams of the linear classifier, if it is used."""
        assert isinstance(options, ClassificationOptions)
        if not options.char_ngrams:
            return None
        return CharNgrams(options.char_ngrams, options.ngram_buckets)

    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[list[float]]:
        """Create the head."""
        ngrams = self.char_ngrams(options)
        return ClassificationHead(
            dim=dim,
            n_labels=len(labels),
            dropout=encoder.dropout,
            ngram_buckets=0 if ngrams is None else ngrams.n_buckets,
        )

    def targets(self, parts: Sequence[Example[str]], label_ids: Mapping[str, int]) -> Tensor:
        """Return the label indices, (batch,)."""
        return torch.tensor([label_ids[gold(part)] for part in parts])

    def answer(
        self,
        example: Example[str],
        parts: Sequence[Example[str]],
        outputs: Sequence[list[float]],
        labels: Sequence[str],
    ) -> LabelPrediction:
        """Return the most likely label and the probabilities of all labels."""
        (row,) = outputs
        probabilities = dict(zip(labels, row, strict=True))
        return LabelPrediction(max(probabilities, key=probabilities.__getitem__), probabilities)

    def scores(
        self, examples: Sequence[Example[str]], answers: Sequence[LabelPrediction]
    ) -> dict[str, float]:
        """Return accuracy and macro F1."""
        scores = label_scores(*_label_lists(examples, answers))
        return {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}

    def report(
        self, examples: Sequence[Example[str]], answers: Sequence[LabelPrediction]
    ) -> LabelReport:
        """Return the scores by label and the confusion matrix."""
        labels, predicted = _label_lists(examples, answers)
        return label_report(labels, predicted, label_scores(labels, predicted).labels)

    def to_record(self, example: Example[str], answer: LabelPrediction) -> Record:
        """Return the words, the label and all label probabilities in descending order."""
        ordered = sorted(answer.probabilities.items(), key=lambda item: -item[1])
        return {
            "words": list(example.words),
            "label": answer.label,
            "probabilities": {name: round(value, 6) for name, value in ordered},
        }


def _label_lists(
    examples: Sequence[Example[str]], answers: Sequence[LabelPrediction]
) -> tuple[list[str], list[str]]:
    """Return the gold labels and the predicted labels."""
    return list(map(gold, examples)), [answer.label or "" for answer in answers]
