"""The geometry of vectors against a loop over all pairs, and by hand."""

import itertools

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.evaluate import probe_vectors
from elmo.evaluate.geometry import geometry

DRAWN = np.random.default_rng(3)
TEXT = [
    *(list(DRAWN.choice(list("abcdefgh,"), size=DRAWN.integers(1, 7))) for _ in range(30)),
    ["a", "b", "a"],
    ["a", "b", "a"],
    [],
]


def draw(sentences):
    """Two layers that depend on a word, its place and its sentence, shifted off the middle."""
    found = []
    for words in sentences:
        seeds = [list(map(ord, (word, str(place), *words))) for place, word in enumerate(words)]
        found.append(
            np.stack(
                [np.random.default_rng(seed).normal(0.5, 1, size=(2, 5)) for seed in seeds], axis=1
            ).astype(np.float32)
        )
    return found


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def slowly(layer):
    """The definitions, pair by pair."""
    distinct = [list(words) for words in sorted({tuple(words) for words in TEXT if words})]
    by_sentence = [found[layer] for found in draw(distinct)]
    places = {}
    for words, found in zip(distinct, by_sentence, strict=True):
        for word in sorted(set(words)):
            places.setdefault(word, []).append(found[words.index(word)])
    counted = [found for word, found in places.items() if len(found) >= 5 and word != ","]
    own = [np.mean([cosine(*p) for p in itertools.combinations(found, 2)]) for found in counted]
    two = [
        np.mean([cosine(one, other) for one in left for other in right])
        for left, right in itertools.combinations(by_sentence, 2)
    ]
    intra = [np.mean([cosine(one, found.mean(axis=0)) for one in found]) for found in by_sentence]
    return np.mean(own), np.mean(two), np.mean(intra), len(counted), sum(map(len, counted))


def test_against_a_loop_over_pairs(monkeypatch):
    monkeypatch.setattr(probe_vectors.encode_in_parts, "__defaults__", (20,))
    found = geometry(draw, TEXT)
    for number, layer in enumerate(found.layers):
        own, two, intra, n_words, n_occurrences = slowly(number)
        assert layer.self_similarity == pytest.approx(own, abs=1e-6)
        assert layer.anisotropy == pytest.approx(two, abs=1e-6)
        assert layer.intra_sentence == pytest.approx(intra, abs=1e-6)
        assert (found.n_words, found.n_occurrences) == (n_words, n_occurrences)
    assert found.n_sentences == len({tuple(words) for words in TEXT if words})


def test_by_hand():
    # `x` points east in three sentences and north in two: 3 + 1 of 10 pairs have cosine 1, the
    # others 0. Among all pairs of different sentences it is the same.
    sentences = [["x", f"{number}"] for number in range(5)]

    def compass(parts):
        directions = [(1.0, 0.0) if int(words[1]) < 3 else (0.0, 2.0) for words in parts]
        return [np.array([[direction] * 2], np.float32) for direction in directions]

    found = geometry(compass, sentences)
    (layer,) = found.layers
    assert layer.self_similarity == pytest.approx(0.4)
    assert layer.anisotropy == pytest.approx(0.4)
    assert layer.intra_sentence == pytest.approx(1.0)
    assert layer.adjusted_self_similarity == pytest.approx(0.0)
    assert (found.n_words, found.n_occurrences, found.n_sentences) == (1, 5, 5)


def test_layer_0_of_a_model_knows_no_context(tiny):
    words = ["bank", "river", "of", "the", "a", "walked"]
    sentences = [words[start:] + words[:start] for start in range(6)]
    found = geometry(lambda parts: tiny.encode(parts, layers="all"), sentences)
    assert found.layers[0].self_similarity == pytest.approx(1.0, abs=1e-5)
    assert found.layers[1].self_similarity < 0.999


def test_too_little_text_is_refused():
    with pytest.raises(InputError, match="no word stands in 5 of 4 sentences: give more text"):
        geometry(draw, [["a", str(number)] for number in range(4)])
