"""Tests of /tokenize, /score, /substitutes and /similarity."""

import re

import numpy as np
import pytest
from conftest import random_model
from server_app import SENTENCES, WORDS, ServerApp

from elmo.embed.embedder import ELMo
from elmo.errors import MissingExtra
from elmo.semantics.word_scorer import WordScorer
from elmo.serve.loaded_model import LoadedModel


@pytest.fixture(scope="module")
def server():
    with ServerApp(others={"plain": LoadedModel("plain", ELMo(random_model(scale=1.5)))}) as server:
        yield server


def test_tokenize_returns_words_and_offsets(server):
    data = server.ask("/tokenize", sentences=["the cat", ["a"]])
    assert data["sentences"] == [
        {"words": ["the", "cat"], "offsets": [[0, 3], [4, 7]]},
        {"words": ["a"]},
    ]


def test_long_text_is_split_in_another_thread(server):
    text = "word " * 1000
    (sentence,) = server.ask("/tokenize", sentences=text)["sentences"]
    assert len(sentence["words"]) == 1000


def test_missing_tokenizer_is_an_error_of_strings_only(server, monkeypatch):
    def get(self):
        raise MissingExtra("the tokenizer korean", "ko")

    monkeypatch.setattr(ELMo, "tokenizer", property(get))
    assert "The tokenizer of tiny is not installed" in server.error("/embed", 422, sentences="a")
    assert server.ask("/tokenize", sentences=[["a"]])["sentences"] == [{"words": ["a"]}]


def test_score_returns_log_probabilities(server):
    data = server.ask("/score", sentences=SENTENCES)
    expected = WordScorer(server.elmo).score([text.split() for text in SENTENCES])
    for found, scores in zip(data["sentences"], expected, strict=True):
        np.testing.assert_allclose(found["forward"], scores.forward, rtol=1e-4)
        np.testing.assert_allclose(found["backward"], scores.backward, rtol=1e-4)
        assert found["end"] == pytest.approx(scores.end, rel=1e-4)
        assert found["begin"] == pytest.approx(scores.begin, rel=1e-4)
        assert found["is_known"] == scores.is_known.tolist()
    assert data["sentences"][1]["is_known"] == [False, True]


def test_substitutes_are_returned_for_positions(server):
    data = server.ask("/substitutes", sentence="the cat sat", positions=[1], n=2)
    (record,) = data["positions"]
    assert record["position"] == 1
    words = [item["word"] for item in record["substitutes"]]
    assert len(words) == 2
    assert set(words) <= set(WORDS[3:]) - {"cat"}
    every = server.ask("/substitutes", sentence=["the", "cat", "sat"])["positions"]
    assert [item["position"] for item in every] == [0, 1, 2]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sentence": "a", "positions": [1]}, "positions[0] must be from 0 to 0 (got 1)."),
        ({"sentence": "a b", "positions": [0, True]}, "positions[1] must be an integer, not true"),
        ({"sentence": "a", "positions": 0}, "positions must be a list, not a number"),
        ({"sentence": "a", "positions": []}, "There are no positions."),
        ({"sentence": ""}, "The sentence has no words."),
        ({"sentence": "a", "n": 0}, "n must be from 1 to 100 (got 0)."),
        ({"sentence": "a", "n": "5"}, "n must be an integer, not a string."),
        ({"sentence": 5}, "sentence must be a string or a list of words, not a number."),
    ],
)
def test_substitutes_reject_wrong_fields(server, fields, message):
    assert message in server.error("/substitutes", 422, **fields)


def test_similarity_compares_all_words_with_one(server):
    data = server.ask("/similarity", sentences=["the cat", "the cat sat"], word=[1, 1], layers="0")
    first, second = [item["cosines"] for item in data["sentences"]]
    assert second[1] == pytest.approx(1, abs=1e-5)
    assert first[1] == pytest.approx(1, abs=1e-5)  # layer 0 does not depend on the context
    assert [len(first), len(second)] == [2, 3]


def test_similarity_compares_sentences(server):
    data = server.ask("/similarity", sentences=["the cat", "a dog", "the cat"], pooling="max")
    matrix = np.array(data["cosines"])
    np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)
    np.testing.assert_allclose(matrix[0, 2], 1, atol=1e-5)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    assert server.ask("/similarity", sentences=[])["cosines"] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"word": [0]}, "word must be the indices of a sentence and of its word."),
        ({"word": [2, 0]}, "word[0] must be from 0 to 1 (got 2)."),
        ({"word": [0, 4]}, "word[1] must be from 0 to 3 (got 4)."),
        ({"layers": "all"}, "layers must be one layer"),
        ({"pooling": "sum"}, "pooling must be one of mean, max, first-last (got 'sum')."),
    ],
)
def test_similarity_rejects_wrong_fields(server, fields, message):
    assert message in server.error("/similarity", 422, sentences=SENTENCES, **fields)


@pytest.mark.parametrize("path", ["/score", "/substitutes"])
def test_model_without_softmax_has_no_probabilities(server, path):
    name = "sentence" if path == "/substitutes" else "sentences"
    message = server.error(path, 422, model="plain", **{name: "a b"})
    assert re.search("has no softmax", message)
    assert server.ask("/embed", model="plain", sentences="a b")["model"] == "plain"
