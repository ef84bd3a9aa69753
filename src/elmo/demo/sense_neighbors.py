"""Senses of a word told apart: its nearest occurrences in sentences written for this.

Ten words, two senses each, fifteen sentences a sense. An occurrence is compared with all others of
its word; where the nearest ones mean the same, the model has read the sentence and not the word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from elmo.embed.embedder import ELMo
from elmo.evaluate.occurrence_index import OccurrenceIndex

FILE = "senses.tsv"
# Neighbours that are shown, and that count.
N_NEAREST = 3


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence.

    Attributes:
        word: as it stands there, once.
        sense: a name for what it means.
        sentence: raw text.
    """

    word: str
    sense: str
    sentence: str


@dataclass(frozen=True)
class SenseNeighbors:
    """The nearest occurrences of a word in one of its senses.

    Attributes:
        query: the occurrence asked about.
        nearest: the nearest others, the nearest first, with their cosines.
    """

    query: Occurrence
    nearest: tuple[tuple[Occurrence, float], ...]

    @property
    def is_right(self) -> bool:
        """Whether most of the nearest mean the same."""
        same = sum(found.sense == self.query.sense for found, _ in self.nearest)
        return 2 * same > len(self.nearest)

    def __str__(self) -> str:
        """Show the query and what was found."""
        lines = [f"{self.query.word} ({self.query.sense})  {self.query.sentence}"]
        width = max(len(one.sense) for one in (self.query, *(found for found, _ in self.nearest)))
        lines += [
            f"  {cosine:.2f}  {found.sense:<{width}}  {found.sentence}"
            for found, cosine in self.nearest
        ]
        return "\n".join(lines)


def occurrences() -> list[Occurrence]:
    """Give the sentences that come with the program."""
    text = resources.files("elmo.demo").joinpath(FILE).read_text(encoding="utf-8")
    return [Occurrence(*line.split("\t")) for line in text.splitlines()]


def nearest_occurrences(
    elmo: ELMo, given: Sequence[Occurrence], *, layer: int, n_nearest: int = N_NEAREST
) -> list[SenseNeighbors]:
    """Find for each occurrence the nearest others of the same word.

    Args:
        elmo: gives the vectors.
        given: what is compared.
        layer: whose vectors.
        n_nearest: how many to keep.
    """
    sentences = [elmo.tokenizer.words(one.sentence) for one in given]
    vectors = np.stack(
        [
            found[words.index(one.word)]
            for one, words, found in zip(
                given, sentences, elmo.encode(sentences, layers=layer), strict=True
            )
        ]
    )
    index = OccurrenceIndex([one.word for one in given], vectors)
    results = []
    for number, (one, vector) in enumerate(zip(given, vectors, strict=True)):
        found = index.nearest(one.word, vector, n_nearest, [number])
        results.append(
            SenseNeighbors(one, tuple((given[place], cosine) for place, cosine in found))
        )
    return results


def n_distinguished(shares: Mapping[str, Mapping[str, float]]) -> int:
    """Count the words both of whose senses are found by more than half of their occurrences."""
    return sum(min(senses.values()) > 0.5 for senses in shares.values())


def are_distinguished(found: Sequence[SenseNeighbors]) -> dict[str, dict[str, float]]:
    """Give for each word and sense the share of its occurrences whose neighbours are right."""
    right: dict[str, dict[str, list[bool]]] = {}
    for one in found:
        senses = right.setdefault(one.query.word, {})
        senses.setdefault(one.query.sense, []).append(one.is_right)
    return {
        word: {sense: sum(marks) / len(marks) for sense, marks in senses.items()}
        for word, senses in right.items()
    }
