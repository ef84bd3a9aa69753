"""Cosine similarity of words and of sentences."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.evaluate.probe_vectors import unit

Cosines = NDArray[np.float32]


def cosines_to_word(
    vectors: Sequence[NDArray[np.float32]], sentence: int, position: int
) -> list[Cosines]:
    """Return the cosine of each word with one of them, (words,) for each sentence.

    Args:
        vectors: Word vectors of sentences, (words, dim) each.
        sentence: Index of the sentence of the word.
        position: Index of the word in its sentence.
    """
    target = unit(vectors[sentence][position])
    return [unit(item) @ target for item in vectors]


def sentence_cosines(vectors: NDArray[np.float32]) -> Cosines:
    """Return the cosines between all sentence vectors, (sentences, sentences)."""
    units = unit(vectors)
    cosines: Cosines = units @ units.T
    return cosines
