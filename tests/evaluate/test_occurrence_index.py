"""Nearest occurrences, by hand in the plane."""

import numpy as np
import pytest

from elmo.evaluate.occurrence_index import OccurrenceIndex

WORDS = ["bat", "bat", "seal", "bat"]
VECTORS = np.array([[2, 0], [0, 1], [1, 0], [3, 3]], np.float16)


def test_those_of_the_word_the_nearest_first():
    index = OccurrenceIndex(WORDS, VECTORS)
    east = np.array([5, 0], np.float32)
    numbers, cosines = zip(*index.nearest("bat", east, 9), strict=True)
    assert numbers == (0, 3, 1)
    assert cosines == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)
    assert [number for number, _ in index.nearest("bat", east, 1, without=[0])] == [3]
    assert index.nearest("owl", east, 3) == []
    assert index.nearest("seal", east, 3, without=[2]) == []
