"""Cosine similarity of words and of sentences."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.evaluate.probe_vectors import unit

Cosines = NDArray[np.float32]

# Sentences whose cosines are computed at a time.
ROWS = 16


def cosines_to_word(
    vectors: Sequence[NDArray[np.float32]], sentence: int, position: int
) -> Iterator[Cosines]:
    """Yield the cosine of each word with one of them, (words,) for each sentence.

    Args:
        vectors: Word vectors of sentences, (words, dim) each.
        sentence: Index of the sentence of the word.
        position: Index of the word in its sentence.
    """
    target = unit(vectors[sentence][position])
    for item in vectors:
        yield _bounded(unit(item) @ target)


def sentence_cosines(vectors: Sequence[NDArray[np.float32]]) -> Iterator[Cosines]:
    """Yield the cosines of each sentence vector with all, (sentences,) each."""
    units = unit(np.array(vectors))
    for start in range(0, len(units), ROWS):
        yield from _bounded(units[start : start + ROWS] @ units.T)


def _bounded(cosines: Cosines) -> Cosines:
    """Return cosines without rounding errors beyond 1."""
    return cosines.clip(-1.0, 1.0)
