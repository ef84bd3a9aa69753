"""Nearest occurrences: by hand on a few vectors, and on the sentences of the demo."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import TINY, random_model

from elmo.demo import sense_neighbors
from elmo.demo.sense_neighbors import (
    Occurrence,
    SenseNeighbors,
    are_distinguished,
    nearest_occurrences,
)
from elmo.embed.embedder import ELMo

GIVEN = [
    Occurrence("bat", "animal", "a bat"),
    Occurrence("bat", "animal", "the bat"),
    Occurrence("bat", "club", "his bat"),
    Occurrence("bat", "club", "her bat"),
    Occurrence("seal", "animal", "a seal"),
]
# Angles of the last word in degrees; the seal lies on the first bat, but is another word.
ANGLES = [0, 10, 90, 25, 0]


def stub():
    def encode(sentences, *, layers):
        assert layers == 2
        assert [" ".join(words) for words in sentences] == [one.sentence for one in GIVEN]
        angles = np.deg2rad(ANGLES)
        lasts = 3.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return [np.stack([-last, last]).astype(np.float32) for last in lasts]

    return SimpleNamespace(encode=encode, tokenizer=SimpleNamespace(words=str.split))


def test_by_hand():
    found = nearest_occurrences(stub(), GIVEN, layer=2, n_nearest=2)
    nearest = [[one.sentence for one, _ in item.nearest] for item in found[:4]]
    assert nearest == [
        ["the bat", "her bat"],
        ["a bat", "her bat"],
        ["her bat", "the bat"],
        ["the bat", "a bat"],
    ]
    assert found[0].nearest[0][1] == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-6)
    assert "bat (animal)  a bat\n  0.98  animal  the bat\n  0.91  club    her bat" in str(found[0])


@pytest.mark.parametrize(
    ("senses", "expected"),
    [(("x",), True), (("y",), False), (("x", "y"), False), (("x", "x", "y"), True)],
)
def test_most_of_the_nearest_decide(senses, expected):
    query = Occurrence("w", "x", "")
    item = SenseNeighbors(query, tuple((Occurrence("w", sense, ""), 0.5) for sense in senses))
    assert item.is_right == expected


def test_shares_by_sense():
    def item(word, sense, found):
        return SenseNeighbors(Occurrence(word, sense, ""), ((Occurrence(word, found, ""), 0.5),))

    found = [item("a", "x", "x"), item("a", "x", "y"), item("a", "y", "y"), item("b", "x", "z")]
    assert are_distinguished(found) == {"a": {"x": 0.5, "y": 1.0}, "b": {"x": 0.0}}


def test_the_sentences_of_the_demo():
    """A random model finds every word, and never an occurrence itself or another word."""
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = random_model(dataclasses.replace(TINY, text=text))
    given = sense_neighbors.occurrences()
    found = nearest_occurrences(ELMo(model), given, layer=2)
    assert [item.query for item in found] == given
    for item in found:
        assert len(item.nearest) == sense_neighbors.N_NEAREST
        assert all(one.word == item.query.word for one, _ in item.nearest)
        assert all(one != item.query for one, _ in item.nearest)
        cosines = [cosine for _, cosine in item.nearest]
        assert cosines == sorted(cosines, reverse=True)
    assert {len(shares) for shares in are_distinguished(found).values()} == {2}
