"""First step of the demo: the bundled English model distinguishes the senses of words.

As in Table 4 of the ELMo paper, it shows the nearest occurrences of a word. The examples are not
hand-picked: they are the first sentence of each sense in the file, also if the model is wrong.
"""

import time
from dataclasses import dataclass

from elmo.demo.sense_neighbors import (
    SenseNeighbors,
    correct_fractions,
    load_occurrences,
    n_distinguished,
    nearest_occurrences,
)
from elmo.embed.embedder import ELMo
from elmo.formats import bundled
from elmo.progress import duration

MODEL = "small-en"
SHOWN = ("play", "bank")


@dataclass(frozen=True)
class SensesResult:
    """Nearest neighbors of each occurrence, and the time taken, with loading the model."""

    found: tuple[SenseNeighbors, ...]
    seconds: float

    @property
    def examples(self) -> list[SenseNeighbors]:
        """Neighbors of the first sentence of each sense, for the words that are shown."""
        first: dict[tuple[str, str], SenseNeighbors] = {}
        for item in self.found:
            first.setdefault((item.query.word, item.query.sense), item)
        return [item for word in SHOWN for (other, _), item in first.items() if other == word]

    @property
    def summary(self) -> str:
        """Number of words whose senses are distinguished, and the time taken."""
        fractions = correct_fractions(self.found)
        return (
            f"{MODEL} distinguishes the two senses of {n_distinguished(fractions)} out of "
            f"{len(fractions)} words ({len(self.found)} sentences, "
            f"{duration(self.seconds, decimal=True)})."
        )

    @property
    def _n_correct(self) -> int:
        return sum(item.is_correct for item in self.found)

    def __str__(self) -> str:
        paragraphs = [
            "Below each sentence are the three occurrences of the same word with the most similar\n"
            "vectors: cosine, sense and sentence. The sentence is correct if most of the three\n"
            "have its sense; the first of them can have the other one.",
            *map(str, self.examples),
            f"{self.summary}\n"
            f"{self._n_correct} of {len(self.found)} sentences are correct. A word counts if most "
            "of its sentences\nin each sense are correct.",
        ]
        return "\n\n".join(paragraphs)


def bundled_senses() -> SensesResult | None:
    """Find the nearest occurrences with the bundled model; None if it is not installed."""
    folder = bundled.installed().get(MODEL)
    if folder is None:
        return None
    start = time.perf_counter()
    elmo = ELMo.from_pretrained(folder)
    found = nearest_occurrences(elmo, load_occurrences(), layer=elmo.config.n_layers - 1)
    return SensesResult(tuple(found), time.perf_counter() - start)
