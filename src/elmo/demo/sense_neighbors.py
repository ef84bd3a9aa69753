"""Nearest occurrences of ambiguous words, in sentences written for the demo.

There are ten words with two senses each and fifteen sentences per sense. Each occurrence is
compared with all others of its word. If the nearest ones have the same sense, the vectors
distinguish the senses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo.embed.embedder import ELMo
from elmo.tasks.nearest_occurrences.occurrence_index import OccurrenceIndex

FILE = "senses.tsv"
# Number of neighbors that are shown and counted.
N_NEAREST = 3


@dataclass(frozen=True)
class Occurrence:
    """Occurrence of a word, which occurs once in the raw sentence, with its sense."""

    word: str
    sense: str
    sentence: str


@dataclass(frozen=True)
class SenseNeighbors:
    """Nearest other occurrences of the word of an occurrence with their cosines, nearest first."""

    query: Occurrence
    nearest: tuple[tuple[Occurrence, float], ...]

    @property
    def n_same_sense(self) -> int:
        """Number of neighbors that have the sense of the query."""
        return sum(neighbor.sense == self.query.sense for neighbor, _ in self.nearest)

    @property
    def is_correct(self) -> bool:
        """Whether most of the neighbors have the sense of the query."""
        return 2 * self.n_same_sense > len(self.nearest)

    def __str__(self) -> str:
        lines = [f"{self.query.word} ({self.query.sense})  {self.query.sentence}"]
        occurrences = (self.query, *(neighbor for neighbor, _ in self.nearest))
        width = max(len(occurrence.sense) for occurrence in occurrences)
        lines += [
            f"  {cosine:.2f}  {neighbor.sense:<{width}}  {neighbor.sentence}"
            for neighbor, cosine in self.nearest
        ]
        result = "correct" if self.is_correct else "wrong"
        lines.append(
            f"  {result}: {self.n_same_sense} of {len(self.nearest)} have the sense "
            f"{self.query.sense}"
        )
        return "\n".join(lines)


def load_occurrences() -> list[Occurrence]:
    """Load the sentences of the demo, which are part of the package."""
    text = Path(__file__).with_name(FILE).read_text(encoding="utf-8")
    return [Occurrence(*line.split("\t")) for line in text.splitlines()]


def nearest_occurrences(
    elmo: ELMo, occurrences: Sequence[Occurrence], *, layer: int, n_nearest: int = N_NEAREST
) -> list[SenseNeighbors]:
    """Find the nearest other occurrences of the same word for each occurrence."""
    sentences = [elmo.tokenizer.words(occurrence.sentence) for occurrence in occurrences]
    vectors = np.stack(
        [
            sentence_vectors[words.index(occurrence.word)]
            for occurrence, words, sentence_vectors in zip(
                occurrences, sentences, elmo.encode(sentences, layers=layer), strict=True
            )
        ]
    )
    index = OccurrenceIndex([occurrence.word for occurrence in occurrences], vectors)
    results = []
    for row, (occurrence, vector) in enumerate(zip(occurrences, vectors, strict=True)):
        nearest = index.nearest(occurrence.word, vector, n_nearest, [row])
        neighbors = tuple((occurrences[number], cosine) for number, cosine in nearest)
        results.append(SenseNeighbors(occurrence, neighbors))
    return results


def correct_fractions(neighbors: Sequence[SenseNeighbors]) -> dict[str, dict[str, float]]:
    """Return the fraction of occurrences with correct neighbors for each word and sense."""
    is_correct: dict[str, dict[str, list[bool]]] = {}
    for item in neighbors:
        senses = is_correct.setdefault(item.query.word, {})
        senses.setdefault(item.query.sense, []).append(item.is_correct)
    return {
        word: {sense: sum(values) / len(values) for sense, values in senses.items()}
        for word, senses in is_correct.items()
    }


def n_distinguished(fractions: Mapping[str, Mapping[str, float]]) -> int:
    """Return the number of words whose senses all have a correct fraction above one half."""
    return sum(min(senses.values()) > 0.5 for senses in fractions.values())
