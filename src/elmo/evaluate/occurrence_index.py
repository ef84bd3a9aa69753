"""Nearest occurrences: where a word stands as it stands here (Peters et al., 2018, Table 4)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.evaluate.probe_vectors import Vectors, unit


class OccurrenceIndex:
    """Vectors of words in their sentences; asked for the nearest ones of the same word."""

    def __init__(self, words: Sequence[str], vectors: NDArray[np.floating]) -> None:
        """Take occurrences.

        Args:
            words: of each.
            vectors: theirs, (occurrences, dim).
        """
        self._vectors = vectors
        self._places: dict[str, list[int]] = {}
        for number, word in enumerate(words):
            self._places.setdefault(word, []).append(number)

    def nearest(
        self, word: str, vector: Vectors, n_nearest: int, without: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """Give the numbers of the nearest occurrences with their cosines, the nearest first.

        Args:
            word: whose occurrences.
            vector: of an occurrence, (dim,).
            n_nearest: how many, at most.
            without: numbers that are left out, that of the occurrence itself above all.
        """
        left_out = set(without)
        numbers = [place for place in self._places.get(word, ()) if place not in left_out]
        if not numbers:
            return []
        cosines = unit(self._vectors[numbers].astype(np.float32)) @ unit(vector)
        order = np.argsort(-cosines, kind="stable")[:n_nearest]
        return [(numbers[place], float(cosines[place])) for place in order]
