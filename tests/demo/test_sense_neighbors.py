"""Tests of nearest occurrences, with a few vectors by hand and with the sentences of the demo."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import TINY, random_model

from elmo.demo import sense_neighbors
from elmo.demo.sense_neighbors import (
    Occurrence,
    SenseNeighbors,
    correct_fractions,
    nearest_occurrences,
)
from elmo.embed.embedder import ELMo

OCCURRENCES = [
    Occurrence("bat", "animal", "a bat"),
    Occurrence("bat", "animal", "the bat"),
    Occurrence("bat", "club", "his bat"),
    Occurrence("bat", "club", "her bat"),
    Occurrence("seal", "animal", "a seal"),
]
# Angle of the last word of each sentence in degrees; "seal" has the same angle as the first "bat".
ANGLES = [0, 10, 90, 25, 0]


def stub_model():
    def encode(sentences, *, layers):
        assert layers == 2
        assert [" ".join(words) for words in sentences] == [item.sentence for item in OCCURRENCES]
        angles = np.deg2rad(ANGLES)
        lasts = 3.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return [np.stack([-last, last]).astype(np.float32) for last in lasts]

    return SimpleNamespace(encode=encode, tokenizer=SimpleNamespace(words=str.split))


def test_nearest_occurrences_by_hand():
    results = nearest_occurrences(stub_model(), OCCURRENCES, layer=2, n_nearest=2)
    nearest = [[neighbor.sentence for neighbor, _ in item.nearest] for item in results[:4]]
    assert nearest == [
        ["the bat", "her bat"],
        ["a bat", "her bat"],
        ["her bat", "the bat"],
        ["the bat", "a bat"],
    ]
    assert results[0].nearest[0][1] == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-6)
    text = "bat (animal)  a bat\n  0.98  animal  the bat\n  0.91  club    her bat\n"
    text += "  wrong: 1 of 2 have the sense animal"
    assert text in str(results[0])


@pytest.mark.parametrize(
    ("senses", "expected"),
    [(("x",), True), (("y",), False), (("x", "y"), False), (("x", "x", "y"), True)],
)
def test_is_correct_requires_majority_of_neighbors(senses, expected):
    query = Occurrence("w", "x", "")
    item = SenseNeighbors(query, tuple((Occurrence("w", sense, ""), 0.5) for sense in senses))
    assert item.is_correct == expected


def test_correct_fractions_of_each_sense():
    def item(word, sense, neighbor_sense):
        neighbor = Occurrence(word, neighbor_sense, "")
        return SenseNeighbors(Occurrence(word, sense, ""), ((neighbor, 0.5),))

    items = [item("a", "x", "x"), item("a", "x", "y"), item("a", "y", "y"), item("b", "x", "z")]
    assert correct_fractions(items) == {"a": {"x": 0.5, "y": 1.0}, "b": {"x": 0.0}}


def test_neighbors_of_demo_sentences_are_other_occurrences_of_the_word():
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = random_model(dataclasses.replace(TINY, text=text))
    occurrences = sense_neighbors.load_occurrences()
    results = nearest_occurrences(ELMo(model), occurrences, layer=2)
    assert [item.query for item in results] == occurrences
    for item in results:
        assert len(item.nearest) == sense_neighbors.N_NEAREST
        assert all(neighbor.word == item.query.word for neighbor, _ in item.nearest)
        assert all(neighbor != item.query for neighbor, _ in item.nearest)
        cosines = [cosine for _, cosine in item.nearest]
        assert cosines == sorted(cosines, reverse=True)
    assert {len(senses) for senses in correct_fractions(results).values()} == {2}
