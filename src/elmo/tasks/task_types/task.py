"""The interface of a task, and a base class with the usual behavior.

A data set is described by a config; a task is described by code. A task defines its labels, the
texts that are encoded together, the head, the target tensors, how raw predictions are converted to
labels or spans, and the scores. Each task has its own module; `task_registry.py` lists them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor

from elmo.config import TaskConfig, TaskEncoderConfig
from elmo.tasks.examples import Example
from elmo.tasks.frozen_layers import Words
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.task_model import TaskHead


@dataclass(frozen=True)
class TextGroup:
    """Texts of a batch that are padded to the same length.

    Attributes:
        texts: Words of each text.
        indicators: Indicator feature of each word, an integer for which the model learns a vector;
            None if the task has no indicator features.
        text_indices: Position of each text in its document if the group is only a part of the
            sentences; None if it contains all of them.
    """

    texts: list[Words]
    indicators: Sequence[Sequence[int]] | None = None
    text_indices: Sequence[int] | None = None


class Task(Protocol):
    """Interface between a task and the code that trains and applies task models."""

    n_texts: ClassVar[int]
    """Number of texts per example."""
    has_sentences: ClassVar[bool]
    """Whether an example is a document and its texts are the sentences."""
    max_batch_examples: ClassVar[int | None]
    """Maximum number of examples per call of the head; None for no limit."""
    target_description: ClassVar[str]
    """Description of a valid target, for error messages."""
    n_indicators: ClassVar[int]
    """Number of distinct values of the indicator feature; 0 if the task has none."""
    metric: str
    """Name of the score that selects the best model."""
    metrics: tuple[str, ...]
    """Names of all scores, in the order of `scores`."""

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Create the task with settings that suit the examples."""

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether the example has a target of this task."""

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Create an example without a target from raw or tokenized texts."""

    def split_example(self, example: Example) -> list[Example]:
        """Split an example into parts that the model processes separately, e.g. if it is long."""

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return the texts of a batch, grouped by which texts are padded together."""

    def weight(self, example: Example) -> float:
        """Return the weight of an example in the mean loss of a batch."""

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the label set of the examples."""

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the maximum number of outcomes of one decision of the head."""

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors with `dim` dimensions."""

    def targets(self, examples: Sequence[Example], label_ids: Mapping[str, int]) -> Tensor:
        """Return the targets of a batch as a tensor.

        Args:
            examples: Examples of the batch.
            label_ids: Index of each label.
        """

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Convert the head's outputs from label indices to labels, one prediction per example."""

    def follow_up_examples(self, example: Example, predictions: Sequence[Any]) -> Sequence[Example]:
        """Return further examples to predict, depending on the predictions for the parts."""

    def merge_predictions(
        self, example: Example, parts: Sequence[Example], predictions: Sequence[Any]
    ) -> Any:
        """Combine the predictions for the parts and follow-up examples of an example."""

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return the scores of predictions, by name."""

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return a prediction as a JSON-serializable record."""

    def to_settings(self) -> dict[str, Any]:
        """Return the settings from which `make_task` creates the same task."""


class BaseTask:
    """Base class of tasks: one text per example, processed as a whole."""

    n_texts: ClassVar[int] = 1
    has_sentences: ClassVar[bool] = False
    max_batch_examples: ClassVar[int | None] = None
    n_indicators: ClassVar[int] = 0

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Create an example without a target from raw or tokenized texts."""
        return Example(tuple(to_words(text, split) for text in texts))

    def split_example(self, example: Example) -> list[Example]:
        """Return the example unsplit."""
        return [example]

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return one group for the first texts of all examples, one for the second texts, etc."""
        columns = zip(*(example.texts for example in examples), strict=True)
        return [TextGroup(list(texts)) for texts in columns]

    def weight(self, example: Example) -> float:
        """Return the same weight for every example."""
        return 1.0

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the number of labels."""
        return len(labels)

    def follow_up_examples(self, example: Example, predictions: Sequence[Any]) -> Sequence[Example]:
        """Return no further examples."""
        return ()

    def merge_predictions(
        self, example: Example, parts: Sequence[Example], predictions: Sequence[Any]
    ) -> Any:
        """Return the prediction for the only part."""
        (prediction,) = predictions
        return prediction


def to_words(text: str | Sequence[str], split: SplitFunction) -> Words:
    """Return the words of a raw or tokenized text."""
    return tuple(split(text) if isinstance(text, str) else text)


def paired_text_groups(examples: Sequence[Example]) -> list[TextGroup]:
    """Return the first and the second texts of examples with two texts.

    The indicator feature of a word is 1 if the other text also contains it: models trained on small
    data sets learn slowly to recognize a word that occurs in both texts.
    """
    groups = []
    for number in range(2):
        indicators = [_shared_words(e.texts[number], e.texts[1 - number]) for e in examples]
        groups.append(TextGroup([e.texts[number] for e in examples], indicators))
    return groups


def _shared_words(words: Words, others: Words) -> list[int]:
    """Return 1 for each word that another text contains, ignoring case, and 0 for the rest."""
    other_words = {word.lower() for word in others}
    return [int(word.lower() in other_words) for word in words]
