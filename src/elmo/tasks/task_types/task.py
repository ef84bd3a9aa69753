"""What the frame asks of a kind of task, and what most kinds answer alike.

A data set is a config; a kind is code. A new one says what its labels are, which texts are read
together, which head finds what is asked, what its targets are in numbers, what an answer is in
words, and what it is worth. Each kind has a file of its own; `registry.py` lists them.
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
    """Texts of a batch that are padded together.

    Attributes:
        texts: their words.
        marks: a number for each word that the input learns a vector for; None where the kind has
            no marks.
        numbers: of the texts, where they are some sentences of a document; None where they are all.
    """

    texts: list[Words]
    indicators: Sequence[Sequence[int]] | None = None
    text_indices: Sequence[int] | None = None


class Task(Protocol):
    """What the frame asks of a kind of task."""

    n_texts: ClassVar[int]
    """Texts that are asked about at a time."""
    has_sentences: ClassVar[bool]
    """Whether such a text is a document, and the texts of an example are its sentences."""
    max_batch_examples: ClassVar[int | None]
    """Examples that a head is given at a time, at most; any number where None."""
    target_description: ClassVar[str]
    """What a target is, in words."""
    n_indicators: ClassVar[int]
    """Marks a word may have, 0 for no marks at all."""
    metric: str
    """Name of the score a model is chosen by."""
    metrics: tuple[str, ...]
    """Names of all scores, in the order `scores` gives them."""

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind that examples are for."""

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has a target of this kind."""

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of texts, raw or split already."""

    def split_example(self, example: Example) -> list[Example]:
        """Cut an example that is too long for memory into some that are not."""

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give the texts of a batch, those together that are padded together."""

    def weight(self, example: Example) -> float:
        """Give what an example counts in the mean that the head's loss is."""

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give what a head chooses from."""

    def n_choices(self, labels: Sequence[str]) -> int:
        """Give how many answers there are to choose from, at most."""

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give the targets of a batch by the numbers of labels."""

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give in words what a head found in numbers."""

    def follow_up_examples(self, example: Example, answers: Sequence[Any]) -> Sequence[Example]:
        """Give what is to be asked once the pieces of an example are answered."""

    def merge_predictions(
        self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]
    ) -> Any:
        """Make one answer of those for the pieces of an example, and for what was asked further."""

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Compare answers with what is right."""

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give an answer as plain data, to be written down."""

    def to_settings(self) -> dict[str, Any]:
        """Give what `make_task` makes the same kind of again."""


class BaseTask:
    """What most kinds answer alike; each says itself what it does otherwise."""

    n_texts: ClassVar[int] = 1
    has_sentences: ClassVar[bool] = False
    max_batch_examples: ClassVar[int | None] = None
    n_indicators: ClassVar[int] = 0

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of texts, raw or split already."""
        return Example(tuple(to_words(text, split) for text in texts))

    def split_example(self, example: Example) -> list[Example]:
        """Leave an example whole."""
        return [example]

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give first texts, second texts and so on, each a group."""
        columns = zip(*(example.texts for example in examples), strict=True)
        return [TextGroup(list(texts)) for texts in columns]

    def weight(self, example: Example) -> float:
        """Count each example alike."""
        return 1.0

    def n_choices(self, labels: Sequence[str]) -> int:
        """Give how many labels there are."""
        return len(labels)

    def follow_up_examples(self, example: Example, answers: Sequence[Any]) -> Sequence[Example]:
        """Ask nothing further."""
        return ()

    def merge_predictions(
        self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]
    ) -> Any:
        """Give the answer of the only piece."""
        (answer,) = answers
        return answer


def to_words(text: str | Sequence[str], split: SplitFunction) -> Words:
    """Split a text that is not split already."""
    return tuple(split(text) if isinstance(text, str) else text)


def paired_text_groups(examples: Sequence[Example]) -> list[TextGroup]:
    """Give first and second texts of examples that have two, words marked that both have.

    Models with little to learn from take long to find out that a word stands on both sides.
    """
    found = []
    for number in range(2):
        marks = [_shared(e.texts[number], e.texts[1 - number]) for e in examples]
        found.append(TextGroup([e.texts[number] for e in examples], marks))
    return found


def _shared(words: Words, others: Words) -> list[int]:
    """Mark the words that another text has too, in small letters or capitals."""
    there = {word.lower() for word in others}
    return [int(word.lower() in there) for word in words]
