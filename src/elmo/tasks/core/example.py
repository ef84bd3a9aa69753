"""Data classes for the examples of all tasks, independent of the file format."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from elmo.errors import InputError
from elmo.tasks.core.renamed_records import original_repr

# Half-open range of word or character indices: (start, end).
IndexRange = tuple[int, int]


@dataclass(frozen=True)
class Example:
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

    texts: tuple[tuple[str, ...], ...]
    target: Any = None
    id: str = ""
    extra: Any = None
    location: object = field(default="", compare=False, repr=False)

    @property
    def words(self) -> tuple[str, ...]:
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
    """Location of an example in a file with one word per line.

    Attributes:
        path: The file.
        first_line: Number of the first line of the example.
        line_numbers: Line number of each word.
    """

    path: Path
    first_line: int
    line_numbers: Sequence[int]

    def __str__(self) -> str:
        return f"{self.path}, line {self.first_line}"

    def word_location(self, index: int) -> str:
        """Return the file and line of a word."""
        return f"{self.path}, line {self.line_numbers[index]}"


def examples_signature(examples: Sequence[Example]) -> list[int]:
    """Return the number of examples and a checksum of their texts and targets.

    Checkpoints and lookup models store this signature, so it must not change between versions.
    """
    content = original_repr([(example.texts, example.target) for example in examples])
    return [len(examples), zlib.crc32(content.encode())]


class Frame(NamedTuple):
    """A predicate and its arguments.

    Attributes:
        predicate: Word index of the predicate.
        tags: One tag per word of the sentence; the predicate itself is tagged V.
    """

    predicate: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class GoldAnswers:
    """The correct answers to a question.

    Attributes:
        texts: All correct answers; empty if the passage does not answer the question.
        word_range: Word range of the first answer in the passage; None if there is no answer.
    """

    texts: tuple[str, ...] = ()
    word_range: IndexRange | None = None


@dataclass(frozen=True)
class Passage:
    """A raw text and the positions of its words in it.

    Attributes:
        text: The raw text.
        word_offsets: Character range (start, end) of each word.
    """

    text: str
    word_offsets: tuple[IndexRange, ...]

    @classmethod
    def align(cls, text: str, words: Sequence[str]) -> "Passage":
        """Find the position of each word in the raw text.

        Args:
            text: The raw text.
            words: Words of the text in order, spelled as in the text.

        Raises:
            InputError: A word does not occur after the previous word.
        """
        offsets: list[IndexRange] = []
        end = 0
        for word in words:
            start = text.find(word, end)
            if start < 0:
                raise InputError(
                    f"The word {word!r} was not found after character {end} of its text. The "
                    "tokenizer must not change the spelling of words."
                )
            end = start + len(word)
            offsets.append((start, end))
        return cls(text, tuple(offsets))

    def text_of(self, word_range: IndexRange) -> str:
        """Return the raw text covered by a range of words."""
        start, end = word_range
        return self.text[self.word_offsets[start][0] : self.word_offsets[end - 1][1]]

    def find_words(self, answer: str, start: int | None = None) -> IndexRange | None:
        """Return the word range of a substring; None if the text does not contain it.

        Args:
            answer: The substring.
            start: Index of the first character of the substring. Default: the first occurrence that
                starts and ends at word boundaries or, if there is none, the first occurrence.
        """
        if start is not None:
            is_there = start >= 0 and self.text.startswith(answer, start)
            return self._overlapping(start, start + len(answer)) if is_there else None
        word_starts = {first for first, _ in self.word_offsets}
        word_ends = {last for _, last in self.word_offsets}
        best: int | None = None
        position = self.text.find(answer)
        while position >= 0:
            best = position if best is None else best
            if position in word_starts and position + len(answer) in word_ends:
                best = position
                break
            position = self.text.find(answer, position + 1)
        return None if best is None else self._overlapping(best, best + len(answer))

    def _overlapping(self, start: int, end: int) -> IndexRange | None:
        """Return the range of words that overlap the characters from `start` to `end`."""
        indices = [
            index
            for index, (first, last) in enumerate(self.word_offsets)
            if first < end and start < last
        ]
        return (indices[0], indices[-1] + 1) if indices else None


@dataclass(frozen=True)
class PronounCandidates:
    """A pronoun from GAP and the two names that it may refer to.

    Attributes:
        pronoun: Word range of the pronoun in the document.
        a: Word range of the first name.
        b: Word range of the second name.
        gender: Gender of the pronoun: masculine or feminine.
    """

    pronoun: IndexRange
    a: IndexRange
    b: IndexRange
    gender: str
