"""Search for occurrences of a word in similar contexts (Peters et al., 2018, Table 4)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.evaluate.probe_vectors import Vectors, unit


class OccurrenceIndex:
    """Index for finding the occurrences of a word whose vectors are nearest to a query vector."""

    def __init__(self, words: Sequence[str], vectors: NDArray[np.floating]) -> None:
        """Create the index of words and their vectors, (occurrences, dim)."""
        self._vectors = vectors
        self._rows: dict[str, list[int]] = {}
        for row, word in enumerate(words):
            self._rows.setdefault(word, []).append(row)

    def nearest(
        self, word: str, vector: Vectors, n_nearest: int, without: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """Return the nearest occurrences of a word as (row, cosine) pairs, nearest first.

        The rows `without` are excluded, such as the row of the query itself.
        """
        excluded = set(without)
        rows = [row for row in self._rows.get(word, ()) if row not in excluded]
        if not rows:
            return []
        cosines = unit(self._vectors[rows].astype(np.float32)) @ unit(vector)
        order = np.argsort(-cosines, kind="stable")[:n_nearest]
        return [(rows[position], float(cosines[position])) for position in order]
