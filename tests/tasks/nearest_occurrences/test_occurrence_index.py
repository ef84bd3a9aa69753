"""Test of the occurrence index with two-dimensional vectors."""

import numpy as np
import pytest

from elmo.tasks.nearest_occurrences.occurrence_index import OccurrenceIndex

WORDS = ["bat", "bat", "seal", "bat"]
VECTORS = np.array([[2, 0], [0, 1], [1, 0], [3, 3]], np.float16)


def test_nearest_returns_occurrences_of_the_word_sorted_by_similarity():
    index = OccurrenceIndex(WORDS, VECTORS)
    east = np.array([5, 0], np.float32)
    rows, cosines = zip(*index.nearest("bat", east, 9), strict=True)
    assert rows == (0, 3, 1)
    assert cosines == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)
    assert [row for row, _ in index.nearest("bat", east, 1, without=[0])] == [3]
    assert index.nearest("owl", east, 3) == []
    assert index.nearest("seal", east, 3, without=[2]) == []
