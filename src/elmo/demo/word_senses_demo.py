"""The demo's first chapter: the bundled English model tells the senses of a word apart.

As in Table 4 of the ELMo paper a word is looked up by its nearest occurrences. Nobody picked what
is shown: it is the first sentence of each sense in the file, whatever was found for it.
"""

import time
from dataclasses import dataclass

from elmo.demo.sense_neighbors import (
    SenseNeighbors,
    are_distinguished,
    n_distinguished,
    nearest_occurrences,
    occurrences,
)
from elmo.embed.embedder import ELMo
from elmo.formats import bundled

MODEL = "small-en"
SHOWN = ("play", "bank")


@dataclass(frozen=True)
class SensesResult:
    """What the bundled model made of the sentences.

    Attributes:
        found: the nearest occurrences of each occurrence.
        seconds: what it took, reading the model included.
    """

    found: tuple[SenseNeighbors, ...]
    seconds: float

    @property
    def firsts(self) -> list[SenseNeighbors]:
        """What was found for the first sentence of each sense of the words shown."""
        firsts: dict[tuple[str, str], SenseNeighbors] = {}
        for one in self.found:
            firsts.setdefault((one.query.word, one.query.sense), one)
        return [one for word in SHOWN for (other, _), one in firsts.items() if other == word]

    @property
    def summary(self) -> str:
        """How many words are told apart, and how long it took."""
        words = are_distinguished(self.found)
        return (
            f"{n_distinguished(words)} of {len(words)} words are told apart "
            f"({len(self.found)} sentences, {self.seconds:.1f} s)"
        )

    def __str__(self) -> str:
        """Show what was found for the first sentences, and the summary."""
        shown = [
            "The nearest occurrences of the first sentence of each sense, with cosine and sense:",
            *map(str, self.firsts),
            f"{self.summary}: in both senses most occurrences\n"
            "have neighbours most of which mean the same.",
        ]
        return "\n\n".join(shown)


def bundled_senses() -> SensesResult | None:
    """Look for the nearest occurrences with the bundled model; None where it is missing."""
    folder = bundled.installed().get(MODEL)
    if folder is None:
        return None
    start = time.perf_counter()
    elmo = ELMo.from_pretrained(folder)
    found = nearest_occurrences(elmo, occurrences(), layer=elmo.config.n_layers - 1)
    return SensesResult(tuple(found), time.perf_counter() - start)
