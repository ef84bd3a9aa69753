"""Tests of cosines of words and sentences."""

import numpy as np

from elmo.semantics.word_similarity import cosines_to_word, sentence_cosines


def test_cosines_are_at_most_one_in_spite_of_rounding():
    vectors = np.random.default_rng(0).standard_normal((300, 512)).astype(np.float32)
    cosines = np.stack(list(sentence_cosines(list(vectors))))
    assert (np.abs(cosines) <= 1).all()
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-6)
    for position in range(20):
        (of_words,) = cosines_to_word([vectors], 0, position)
        assert (np.abs(of_words) <= 1).all()
        np.testing.assert_allclose(of_words, cosines[position], atol=1e-6)
