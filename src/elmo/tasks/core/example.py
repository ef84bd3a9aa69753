"""Data classes for the examples of all tasks, independent of the file format."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from elmo.tasks.core.renamed_records import original_repr

# Half-open range of word or character indices: (start, end).
IndexRange = tuple[int, int]
Words = tuple[str, ...]

Target_co = TypeVar("Target_co", covariant=True)


@dataclass(frozen=True)
class Example(Generic[Target_co]):
    """One training, evaluation or prediction example.

    Attributes:
        texts: Words of each text: one text for classification, tagging and semantic roles; two
            for sentence pairs; question and passage for question answering; the sentences of a
            document for coreference.
        target: Gold annotation: a label for classification and sentence pairs, a tuple of tags for
            tagging, `GoldAnswers` for question answering, a tuple of `Frame`s for semantic roles, a
            tuple of clusters for coreference; None if unknown.
        id: Id of the example in its file; empty if it has none.
        extra: Additional input besides the words: the `Passage` for question answering, the word
            indices of the predicates for semantic roles, the speaker of each sentence for
            coreference.
        location: File and line for error messages. It can be any object with a `__str__` method, so
            that a slow line lookup only happens for an error message; `WordLines` if each word is
            on its own line.
    """

    texts: tuple[Words, ...]
    target: Target_co | None = None
    id: str = ""
    extra: object = None
    location: object = field(default="", compare=False, repr=False)

    @property
    def words(self) -> Words:
        """The words of the first text."""
        return self.texts[0]

    def word_location(self, index: int) -> str:
        """Return the file and line of a word in the first text; an empty string if unknown."""
        if isinstance(self.location, WordLines):
            return self.location.word_location(index)
        location = str(self.location)
        return location and f"{location}, at the word {self.words[index]!r}"


@dataclass(frozen=True)
class WordLines:
    """Location of an example in a file with one word per line, and the line of each word."""

    path: Path
    first_line: int
    line_numbers: Sequence[int]

    def __str__(self) -> str:
        return f"{self.path}, line {self.first_line}"

    def word_location(self, index: int) -> str:
        """Return the file and line of a word."""
        return f"{self.path}, line {self.line_numbers[index]}"


def gold(example: Example[Target_co]) -> Target_co:
    """Return the target of an example that has one."""
    assert example.target is not None
    return example.target


def examples_signature(examples: Sequence[Example[object]]) -> list[int]:
    """Return the number of examples and a checksum of their texts and targets.

    Checkpoints and lookup models store this signature, so it must not change between versions.
    """
    content = original_repr([(example.texts, example.target) for example in examples])
    return [len(examples), zlib.crc32(content.encode())]
