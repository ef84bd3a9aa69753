"""Interfaces of tasks.

A task defines what an example, its target and an answer are, how answers are scored, and how they
are written. A `TrainedTask` also defines the head of a task model: which texts are encoded
together, the target tensors, and how outputs of the head become answers. A `LookupTask` is an index
of ELMo vectors instead: it is fitted in one pass over the examples.

Each task is a package next to this one and has a row in `registry/task_rows.py`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import TaskEncoderConfig
from elmo.config.tasks import TaskOptions
from elmo.evaluate.probe_vectors import Encode
from elmo.progress import format_count
from elmo.tasks.core.char_ngrams import CharNgrams
from elmo.tasks.core.example import Example, Words
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.core.task_model import TaskHead
from elmo.text.line_splitter import SplitFunction

Target = TypeVar("Target")
Answer = TypeVar("Answer")
# What a head returns for an example or for a part of it.
Output = TypeVar("Output")
# A raw text, a list of words or, for a document, a list of sentences.
Text = str | Sequence[str] | Sequence[Sequence[str]]
# JSON-serializable data.
Record = dict[str, object]


class Task(ABC, Generic[Target, Answer]):
    """What all tasks define, whether they are trained or not."""

    n_inputs: ClassVar[int] = 1
    """Number of texts from which `make_example` creates an example."""
    n_texts: ClassVar[int | None] = 1
    """Number of texts per example; None if an example is a document and its texts sentences."""
    target_description: ClassVar[str]
    """Description of a valid target, for error messages."""
    empty_answer: Answer
    """Answer for a text without words."""
    metric: str
    """Name of the score used for model selection."""

    @staticmethod
    @abstractmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the example has a valid target for this task."""

    @classmethod
    def make_example(cls, texts: Sequence[Text], split: SplitFunction) -> Example[Target]:
        """Create an example without a target from raw or tokenized texts."""
        return Example(tuple(to_words(text, split) for text in texts))

    @abstractmethod
    def scores(
        self, examples: Sequence[Example[Target]], answers: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the scores of the answers by name."""

    def report(
        self, examples: Sequence[Example[Target]], answers: Sequence[Answer]
    ) -> LabelReport | None:
        """Return the scores by label and the confusion matrix; None if the task has no labels."""
        return None

    @abstractmethod
    def to_record(self, example: Example[Target], answer: Answer) -> Record:
        """Return an answer as a JSON-serializable dictionary."""


@dataclass(frozen=True)
class TextGroup:
    """Texts in a batch that are padded to the same length.

    `indicators` are a feature of each word, an index into a learned embedding, if the task has one.
    `text_indices` are the indices of the texts in their document, if the group has only some of
    them.
    """

    texts: list[Words]
    indicators: Sequence[Sequence[int]] | None = None
    text_indices: Sequence[int] | None = None


class TrainedTask(Task[Target, Answer], Generic[Target, Answer, Output]):
    """A task with a trained model. By default, an example is processed as a whole."""

    max_batch_examples: ClassVar[int | None] = None
    """Maximum number of examples that the head processes at once; None for no limit."""
    n_indicators: ClassVar[int] = 0
    """Number of distinct values of the indicator feature; 0 if the task has no such feature."""
    labeled_unit: ClassVar[str] = ""
    """What has a label, such as "examples", if a model needs at least two labels to learn."""
    metrics: tuple[str, ...]
    """Names of all scores, in the order in which `scores` returns them."""

    @classmethod
    @abstractmethod
    def from_examples(cls, examples: Sequence[Example[Target]], options: TaskOptions) -> Self:
        """Create the task with settings from its options or inferred from the examples."""

    def split_example(self, example: Example[Target]) -> list[Example[Target]]:
        """Split an example into parts that the model processes separately, e.g. a long text."""
        return [example]

    def text_groups(self, parts: Sequence[Example[Target]]) -> list[TextGroup]:
        """Return the texts of a batch in groups; each group is padded to a common length.

        By default, the first texts of all parts are a group, the second texts are one, and so on.
        """
        columns = zip(*(part.texts for part in parts), strict=True)
        return [TextGroup(list(texts)) for texts in columns]

    def weight(self, part: Example[Target]) -> float:
        """Return the weight of a part in the mean loss of a batch."""
        return 1.0

    def labels(self, examples: Sequence[Example[Target]]) -> list[str]:
        """Return the distinct labels of the examples; an empty list if the task has no labels."""
        return []

    def describe_labels(self, labels: Sequence[str], examples: Sequence[Example[Target]]) -> str:
        """Return a short description of the labels of the training examples."""
        return format_count(len(labels), "label")

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the maximum number of classes that the head chooses between in one decision."""
        return len(labels)

    def char_ngrams(self, options: TaskOptions) -> CharNgrams | None:
        """Return which character n-grams the head uses; None for none."""
        return None

    @abstractmethod
    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[Output]:
        """Create the head."""

    @abstractmethod
    def targets(self, parts: Sequence[Example[Target]], label_ids: Mapping[str, int]) -> Tensor:
        """Return the targets of a batch as a tensor for the head's loss."""

    def follow_up_examples(
        self, example: Example[Target], outputs: Sequence[Output], labels: Sequence[str]
    ) -> list[Example[Target]]:
        """Return additional parts to predict, based on the outputs for the parts."""
        return []

    @abstractmethod
    def answer(
        self,
        example: Example[Target],
        parts: Sequence[Example[Target]],
        outputs: Sequence[Output],
        labels: Sequence[str],
    ) -> Answer:
        """Convert the head's outputs to the answer for an example.

        There is one output for each part, as returned by `split_example`, and for additional parts.
        """

    def to_settings(self) -> dict[str, object]:
        """Return the settings from which `from_settings` recreates this task.

        By default, they are the attributes with the names of the constructor's arguments.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """Create the task from the settings in a model folder: arguments of the constructor."""
        return cast(Callable[..., Self], cls)(**settings)


class LookupTask(Task[Target, Answer]):
    """A task whose fit is one pass: an index of ELMo vectors."""

    @classmethod
    @abstractmethod
    def from_examples(
        cls,
        encode: Encode,
        examples: Sequence[Example[Target]],
        options: TaskOptions,
        train: str | None,
    ) -> Self:
        """Build the index; `encode` computes the word vectors of sentences, (1, words, dim).

        `train` is the path from which the examples were read; None if they were not in a file.
        """

    @classmethod
    @abstractmethod
    def from_state(
        cls, content: Record, vectors: NDArray[np.float16], options: TaskOptions
    ) -> Self:
        """Restore an index from the values returned by `state`."""

    @abstractmethod
    def state(self) -> tuple[Record, NDArray[np.float16]]:
        """Return the index as JSON-serializable data and vectors, (rows, dim)."""

    @abstractmethod
    def look_up(self, encode: Encode, examples: Sequence[Example[Target]]) -> list[Answer]:
        """Return the answer for each example."""


def to_words(text: Text, split: SplitFunction) -> Words:
    """Return the words of a raw or tokenized text."""
    return tuple(split(text)) if isinstance(text, str) else cast(Words, tuple(text))


def paired_text_groups(parts: Sequence[Example[object]]) -> list[TextGroup]:
    """Return the first texts and the second texts of examples with two texts.

    The indicator feature of a word is 1 if it also occurs in the other text. Without it, models
    trained on small data sets are slow to learn to recognize such words.
    """
    groups = []
    for number in range(2):
        indicators = [_shared_words(part.texts[number], part.texts[1 - number]) for part in parts]
        groups.append(TextGroup([part.texts[number] for part in parts], indicators))
    return groups


def _shared_words(words: Words, others: Words) -> list[int]:
    """Return 1 for each word that also occurs in `others`, ignoring case, and 0 otherwise."""
    other_words = {word.lower() for word in others}
    return [int(word.lower() in other_words) for word in words]
