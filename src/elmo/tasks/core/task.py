"""Interface of a task, and a base class with default behavior.

A task defines its labels, which texts are encoded together, the head, the target tensors, how raw
predictions are converted to labels or spans, and the scores. Each task is implemented in its own
module and listed in `task_registry.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.tasks.core.example import Example
from elmo.tasks.core.frozen_layers import Words
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.core.task_model import TaskHead
from elmo.text.line_splitter import SplitFunction


@dataclass(frozen=True)
class TextGroup:
    """Texts in a batch that are padded to the same length.

    Attributes:
        texts: Words of each text.
        indicators: Indicator feature of each word, an index into a learned embedding; None if the
            task has no indicator feature.
        text_indices: Index of each text in its document, if the group contains only some of the
            sentences of a document; otherwise None.
    """

    texts: list[Words]
    indicators: Sequence[Sequence[int]] | None = None
    text_indices: Sequence[int] | None = None


class Task(Protocol):
    """Interface that training and prediction use for all tasks."""

    n_texts: ClassVar[int]
    """Number of texts per example."""
    has_sentences: ClassVar[bool]
    """Whether an example is a document whose texts are its sentences."""
    max_batch_examples: ClassVar[int | None]
    """Maximum number of examples that the head processes at once; None for no limit."""
    target_description: ClassVar[str]
    """Description of a valid target, for error messages."""
    n_indicators: ClassVar[int]
    """Number of distinct values of the indicator feature; 0 if the task has no such feature."""
    empty_prediction: ClassVar[Any]
    """Prediction for a text without words."""
    metric: str
    """Name of the score used for model selection."""
    metrics: tuple[str, ...]
    """Names of all scores, in the order in which `scores` returns them."""

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Create the task with settings from the config or inferred from the examples."""

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether the example has a valid target for this task."""

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Create an example without a target from raw or tokenized texts."""

    def split_example(self, example: Example) -> list[Example]:
        """Split an example into parts that the model processes separately, e.g. a long text."""

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return the texts of a batch in groups; each group is padded to a common length."""

    def weight(self, example: Example) -> float:
        """Return the weight of an example in the mean loss of a batch."""

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the distinct labels of the examples."""

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the maximum number of classes that the head chooses between in one decision."""

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors of size `dim`."""

    def targets(self, examples: Sequence[Example], label_ids: Mapping[str, int]) -> Tensor:
        """Return the targets of a batch as a tensor for the head's loss.

        Args:
            examples: Examples of the batch.
            label_ids: Index of each label.
        """

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Convert the head's raw outputs to predictions, one per example."""

    def follow_up_examples(self, example: Example, predictions: Sequence[Any]) -> Sequence[Example]:
        """Return additional examples to predict, based on the predictions for the parts."""

    def merge_predictions(
        self, example: Example, parts: Sequence[Example], predictions: Sequence[Any]
    ) -> Any:
        """Combine the predictions for the parts and follow-up examples of an example."""

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return the scores of the predictions by name."""

    def report(self, examples: Sequence[Example], predictions: Sequence[Any]) -> LabelReport | None:
        """Return the scores by label and the confusion matrix; None if the task has no labels."""

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return a prediction as a JSON-serializable dictionary."""

    def to_settings(self) -> dict[str, Any]:
        """Return the settings that `make_task` needs to recreate this task."""


class BaseTask:
    """Base class of tasks. By default, an example is one text that is not split."""

    n_texts: ClassVar[int] = 1
    has_sentences: ClassVar[bool] = False
    max_batch_examples: ClassVar[int | None] = None
    n_indicators: ClassVar[int] = 0
    empty_prediction: ClassVar[Any] = ()

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Create an example without a target from raw or tokenized texts."""
        return Example(tuple(to_words(text, split) for text in texts))

    def split_example(self, example: Example) -> list[Example]:
        """Return the example as a single part."""
        return [example]

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return one group with the first text of every example, one with the second text, etc."""
        columns = zip(*(example.texts for example in examples), strict=True)
        return [TextGroup(list(texts)) for texts in columns]

    def weight(self, example: Example) -> float:
        """Return the same weight for every example."""
        return 1.0

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the number of labels."""
        return len(labels)

    def follow_up_examples(self, example: Example, predictions: Sequence[Any]) -> Sequence[Example]:
        """Return no additional examples."""
        return ()

    def merge_predictions(
        self, example: Example, parts: Sequence[Example], predictions: Sequence[Any]
    ) -> Any:
        """Return the prediction for the only part."""
        (prediction,) = predictions
        return prediction

    def report(self, examples: Sequence[Example], predictions: Sequence[Any]) -> LabelReport | None:
        """Return None: the task has no labels to report on."""
        return None


def to_words(text: str | Sequence[str], split: SplitFunction) -> Words:
    """Return the words of a raw or tokenized text."""
    return tuple(split(text) if isinstance(text, str) else text)


def paired_text_groups(examples: Sequence[Example]) -> list[TextGroup]:
    """Return the first texts and the second texts of examples with two texts.

    The indicator feature of a word is 1 if it also occurs in the other text. Without it, models
    trained on small data sets are slow to learn to recognize such words.
    """
    groups = []
    for number in range(2):
        indicators = [_shared_words(e.texts[number], e.texts[1 - number]) for e in examples]
        groups.append(TextGroup([e.texts[number] for e in examples], indicators))
    return groups


def _shared_words(words: Words, others: Words) -> list[int]:
    """Return 1 for each word that also occurs in `others`, ignoring case, and 0 otherwise."""
    other_words = {word.lower() for word in others}
    return [int(word.lower() in other_words) for word in words]
