"""One labelled text, or several that belong together, whatever file they came from."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from elmo.errors import InputError

# Words from the first up to, not including, the second.
Place = tuple[int, int]


@dataclass(frozen=True)
class Example:
    """What a task is trained on, measured on, or asked.

    Attributes:
        texts: the word sequences to be embedded: one for classification, tagging and roles; two for
            pairs; question and passage for answers; the sentences of a document for clusters.
        target: what is to be found: a label for classification and pairs, a tuple of tags for
            tagging, `GoldAnswers` for answers, a tuple of `Frame`s for roles, a tuple of clusters
            for a document; None where it is not known.
        id: name of the example in its file, empty where it has none.
        given: what is known besides the words: the `Passage` for answers, the numbers of the
            predicates for roles, who speaks in each sentence of a document.
        where: file and line, for messages; anything that `str` makes them of, as finding a line
            may take its time; `WordLines` where each word has a line.
    """

    texts: tuple[tuple[str, ...], ...]
    target: Any = None
    id: str = ""
    given: Any = None
    where: object = field(default="", compare=False, repr=False)

    @property
    def words(self) -> tuple[str, ...]:
        """The first text."""
        return self.texts[0]

    def where_is(self, number: int) -> str:
        """Say where a word of the first text stands; nothing where that is not known."""
        if isinstance(self.where, WordLines):
            return self.where.line_of(number)
        where = str(self.where)
        return where and f"{where}, at the word {self.words[number]!r}"


@dataclass(frozen=True)
class WordLines:
    """Where an example stands whose words have a line each.

    Attributes:
        path: the file.
        first: line that the example begins with.
        numbers: of each word's line.
    """

    path: Path
    first: int
    numbers: Sequence[int]

    def __str__(self) -> str:
        return f"{self.path}, line {self.first}"

    def line_of(self, number: int) -> str:
        """Give file and line of a word."""
        return f"{self.path}, line {self.numbers[number]}"


def mark_of(examples: Sequence[Example]) -> list[int]:
    """Give what examples are known by: how many there are, and a checksum."""
    return [len(examples), zlib.crc32(repr([(e.texts, e.target) for e in examples]).encode())]


class Frame(NamedTuple):
    """A predicate and its arguments.

    Attributes:
        predicate: number of its word.
        tags: one for each word of the sentence; the predicate itself is V.
    """

    predicate: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class GoldAnswers:
    """What is right to answer.

    Attributes:
        texts: all answers that are right; none where the passage does not answer the question.
        place: words of the passage that the first of them covers; None where there is none.
    """

    texts: tuple[str, ...] = ()
    place: Place | None = None


@dataclass(frozen=True)
class Passage:
    """A text as it was written, and where its words stand in it.

    Attributes:
        text: raw.
        places: characters of each word.
    """

    text: str
    places: tuple[Place, ...]

    @classmethod
    def of(cls, text: str, words: Sequence[str]) -> "Passage":
        """Find the words of a text in it; they are pieces of it, in its order."""
        places: list[Place] = []
        at = 0
        for word in words:
            start = text.find(word, at)
            if start < 0:
                raise InputError(
                    f"the word {word!r} is not found after character {at} of its text: the "
                    "tokeniser must leave words as they are"
                )
            at = start + len(word)
            places.append((start, at))
        return cls(text, tuple(places))

    def piece(self, place: Place) -> str:
        """Give the raw text of some words."""
        first, last = place
        return self.text[self.places[first][0] : self.places[last - 1][1]]

    def place_of(self, answer: str, start: int | None = None) -> Place | None:
        """Give the words that a piece of the text covers; None where it is not in the text.

        Args:
            answer: the piece.
            start: its first character; where None, that of the first piece that begins and ends
                with words, else of the first.
        """
        if start is not None:
            is_there = start >= 0 and self.text.startswith(answer, start)
            return self._over(start, start + len(answer)) if is_there else None
        firsts = {first for first, _ in self.places}
        lasts = {last for _, last in self.places}
        found: int | None = None
        at = self.text.find(answer)
        while at >= 0:
            found = at if found is None else found
            if at in firsts and at + len(answer) in lasts:
                found = at
                break
            at = self.text.find(answer, at + 1)
        return None if found is None else self._over(found, found + len(answer))

    def _over(self, start: int, end: int) -> Place | None:
        """Give the words that share a character with those from `start` up to `end`."""
        touched = [
            number
            for number, (first, last) in enumerate(self.places)
            if first < end and start < last
        ]
        return (touched[0], touched[-1] + 1) if touched else None


@dataclass(frozen=True)
class NamesOfPronoun:
    """A pronoun and two names, one of which it may mean (GAP).

    Attributes:
        pronoun: its words, counted over all sentences.
        a: those of the first name.
        b: those of the second.
        gender: of the pronoun, masculine or feminine.
    """

    pronoun: Place
    a: Place
    b: Place
    gender: str
