"""Tests of vector geometry: hand-computed values and comparison with a loop over all pairs."""

import itertools

import numpy as np
import pytest
from vector_geometry import geometry

from elmo.errors import InputError
from elmo.evaluate import probe_vectors

RNG = np.random.default_rng(3)
TEXT = [
    *(list(RNG.choice(list("abcdefgh,"), size=RNG.integers(1, 7))) for _ in range(30)),
    ["a", "b", "a"],
    ["a", "b", "a"],
    [],
]


def random_encode(sentences):
    """Return two layers of random vectors that depend on word, position and sentence."""
    arrays = []
    for words in sentences:
        seeds = [list(map(ord, (word, str(at), *words))) for at, word in enumerate(words)]
        arrays.append(
            np.stack(
                # A mean of 0.5 makes the vectors anisotropic.
                [np.random.default_rng(seed).normal(0.5, 1, size=(2, 5)) for seed in seeds],
                axis=1,
            ).astype(np.float32)
        )
    return arrays


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


def slow_geometry(layer):
    """Compute the geometry from its definition, pair by pair."""
    distinct = [list(words) for words in sorted({tuple(words) for words in TEXT if words})]
    sentence_vectors = [vectors[layer] for vectors in random_encode(distinct)]
    occurrences = {}
    for words, vectors in zip(distinct, sentence_vectors, strict=True):
        for word in sorted(set(words)):
            occurrences.setdefault(word, []).append(vectors[words.index(word)])
    counted = [
        vectors for word, vectors in occurrences.items() if len(vectors) >= 5 and word != ","
    ]
    self_similarity = [
        np.mean([cosine(*pair) for pair in itertools.combinations(vectors, 2)])
        for vectors in counted
    ]
    anisotropy = [
        np.mean([cosine(x, y) for x in left for y in right])
        for left, right in itertools.combinations(sentence_vectors, 2)
    ]
    intra = [
        np.mean([cosine(vector, vectors.mean(axis=0)) for vector in vectors])
        for vectors in sentence_vectors
    ]
    means = (np.mean(self_similarity), np.mean(anisotropy), np.mean(intra))
    return *means, len(counted), sum(map(len, counted))


def test_geometry_equals_slow_loop_over_all_pairs(monkeypatch):
    monkeypatch.setattr(probe_vectors.encode_in_parts, "__defaults__", (20,))
    result = geometry(random_encode, TEXT)
    for number, layer in enumerate(result.layers):
        self_similarity, anisotropy, intra, n_words, n_occurrences = slow_geometry(number)
        assert layer.self_similarity == pytest.approx(self_similarity, abs=1e-6)
        assert layer.anisotropy == pytest.approx(anisotropy, abs=1e-6)
        assert layer.intra_sentence == pytest.approx(intra, abs=1e-6)
        assert (result.n_words, result.n_occurrences) == (n_words, n_occurrences)
    assert result.n_sentences == len({tuple(words) for words in TEXT if words})


def test_geometry_equals_hand_computed_values():
    # `x` points east in three sentences and north in two: 3 + 1 of 10 pairs have cosine 1, the
    # others 0. The same holds for all pairs of words of different sentences.
    sentences = [["x", f"{number}"] for number in range(5)]

    def compass(parts):
        directions = [(1.0, 0.0) if int(words[1]) < 3 else (0.0, 2.0) for words in parts]
        return [np.array([[direction] * 2], np.float32) for direction in directions]

    result = geometry(compass, sentences)
    (layer,) = result.layers
    assert layer.self_similarity == pytest.approx(0.4)
    assert layer.anisotropy == pytest.approx(0.4)
    assert layer.intra_sentence == pytest.approx(1.0)
    assert layer.adjusted_self_similarity == pytest.approx(0.0)
    assert (result.n_words, result.n_occurrences, result.n_sentences) == (1, 5, 5)


def test_self_similarity_of_context_independent_layer_0_is_1(tiny):
    words = ["bank", "river", "of", "the", "a", "walked"]
    sentences = [words[start:] + words[:start] for start in range(6)]
    result = geometry(lambda parts: tiny.encode(parts, layers="all"), sentences)
    assert result.layers[0].self_similarity == pytest.approx(1.0, abs=1e-5)
    assert result.layers[1].self_similarity < 0.999


def test_geometry_rejects_text_without_frequent_words():
    message = r"No word occurs in at least 5 of the 4 distinct sentences\. Use more text"
    with pytest.raises(InputError, match=message):
        geometry(random_encode, [["a", str(number)] for number in range(4)])
