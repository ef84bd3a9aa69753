"""Golden files of ELMoForManyLangs (B8): ids, layers, state over two calls."""

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


def test_ids(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    by_length = sorted(sentences, key=len, reverse=True)
    ids = elmo.character_ids(by_length).numpy()
    real = (ids > 0).any(axis=2)
    # Their ids have no shift and are padded with pads; ours are shifted and padded with 0.
    words = expected["batch_word_ids_sorted_by_len"]
    characters = expected["batch_char_ids_sorted_by_len"]
    assert np.array_equal(ids[:, :, -1][real] - 1, words[real])
    assert np.array_equal(ids[:, :, :-1][real] - 1, characters[real])


def test_two_calls(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    # The program sorts a batch by length and carries the state of each row to the next call.
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
    twice = [sentences[place] for place in order] * 2
    vectors = elmo.encode(twice, layers="all", state="carry", batch_size=3)
    for call, name in enumerate(("first_call", "second_call_same_embedder")):
        for row, place in enumerate(order):
            np.testing.assert_allclose(
                vectors[3 * call + row], expected[f"{name}/s{place}"], rtol=0, atol=TOLERANCE
            )


def test_average(golden, elmo, sentences):
    expected = np.load(golden / "expected.npz")
    for place, found in enumerate(elmo.encode(sentences)):
        np.testing.assert_allclose(
            found, expected[f"first_call_avg/s{place}"], rtol=0, atol=TOLERANCE
        )
