"""Parity tests with ELMoForManyLangs: ids, layers, and state carried between calls."""

import json

import numpy as np
import pytest

from elmo.embed.embedder import ELMo

TOLERANCE = 1e-5


@pytest.fixture
def golden(golden_path):
    return golden_path("generated/elmoformanylangs")


@pytest.fixture
def elmo(golden):
    return ELMo.from_pretrained(golden / "tiny.model")


@pytest.fixture
def sentences(golden):
    return json.loads((golden / "sentences.json").read_text())


def test_token_ids_equal_elmo_for_many_langs(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    by_length = sorted(sentences, key=len, reverse=True)
    ids = elmo.character_ids(by_length).numpy()
    real = (ids > 0).any(axis=2)
    # Their ids are unshifted and padded with the id of <pad>; ours are shifted and padded with 0.
    words = expected["batch_word_ids_sorted_by_len"]
    characters = expected["batch_char_ids_sorted_by_len"]
    assert np.array_equal(ids[:, :, -1][real] - 1, words[real])
    assert np.array_equal(ids[:, :, :-1][real] - 1, characters[real])


def test_layers_in_two_successive_calls_match_elmo_for_many_langs(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    # ELMoForManyLangs sorts a batch by length and carries the state of each row to the next call.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    twice = [sentences[number] for number in order] * 2
    vectors = elmo.encode(twice, layers="all", state="carry", batch_size=3)
    for call, name in enumerate(("first_call", "second_call_same_embedder")):
        for row, number in enumerate(order):
            np.testing.assert_allclose(
                vectors[3 * call + row], expected[f"{name}/s{number}"], rtol=0, atol=TOLERANCE
            )


def test_layer_average_matches_elmo_for_many_langs(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    for number, vectors in enumerate(elmo.encode(sentences)):
        np.testing.assert_allclose(
            vectors, expected[f"first_call_avg/s{number}"], rtol=0, atol=TOLERANCE
        )
