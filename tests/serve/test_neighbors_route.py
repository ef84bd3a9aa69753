"""Tests of /neighbors."""

import numpy as np
import pytest
from conftest import random_model
from server_app import ServerApp

from elmo.demo.sense_neighbors import load_occurrences
from elmo.embed.embedder import ELMo
from elmo.errors import MissingExtra
from elmo.evaluate.probe_vectors import unit
from elmo.serve.example_words import ExampleWords
from elmo.serve.loaded_model import LoadedModel
from elmo.text.tokenizer import EnglishTokenizer, WhitespaceTokenizer

EXAMPLES = load_occurrences()


@pytest.fixture(scope="module")
def server():
    with ServerApp() as server:
        yield server


@pytest.mark.parametrize("layers", ["average", "0", "top"])
def test_neighbors_are_the_words_with_the_largest_cosines(server, layers):
    text = "the bank of the river"
    data = server.ask("/neighbors", sentence=text, position=1, n=20, layers=layers)
    assert data["words"] == text.split()
    vectors = server.elmo.encode([[*text.split()]], layers=layers)[0]
    sentences = [example.sentence.split() for example in EXAMPLES]
    cosines = [
        unit(item) @ unit(vectors[1]) for item in server.elmo.encode(sentences, layers=layers)
    ]
    expected = -np.sort(-np.concatenate(cosines))[:20]
    found = [item["cosine"] for item in data["neighbors"]]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for item in data["neighbors"]:
        assert item["sentence"][item["start"] : item["end"]] == item["word"]


def test_word_of_an_example_sentence_is_its_own_nearest_neighbor(server):
    text = EXAMPLES[3].sentence
    position = text.split().index("bank")
    data = server.ask("/neighbors", sentence=text, position=position, n=1)
    (nearest,) = data["neighbors"]
    assert nearest == {
        "word": "bank",
        "sentence": text,
        "start": text.index("bank"),
        "end": text.index("bank") + 4,
        "sense": "river",
        "cosine": pytest.approx(1, abs=1e-5),
    }


def test_vectors_of_examples_are_computed_once(server):
    fields = {"sentence": "a dog", "position": 1, "layers": "1"}
    first = server.ask("/neighbors", **fields)
    before = server.state.example_words["tiny", "1"]
    assert server.ask("/neighbors", **fields) == first
    assert server.state.example_words["tiny", "1"] is before


def test_sense_belongs_to_the_ambiguous_word_only():
    examples = ExampleWords(EnglishTokenizer())
    examples.add([np.eye(len(words), 40, dtype=np.float32) for words in examples.sentences])
    assert examples.is_complete
    words = [word for word, _ in examples.nearest(np.ones(40, dtype=np.float32), 10**6)]
    assert sum(word.sense is not None for word in words) == len(EXAMPLES)
    assert {word.word for word in words if word.sense} == {example.word for example in EXAMPLES}


def test_next_request_continues_with_the_examples_of_a_cancelled_one(server):
    examples = ExampleWords(WhitespaceTokenizer())
    server.state.example_words["tiny", "2"] = examples
    examples.add(server.elmo.encode(examples.sentences[:120], layers=2))
    data = server.ask("/neighbors", sentence="the cat", position=0, layers="2", n=100)
    assert examples.is_complete
    assert len(data["neighbors"]) == 100


def test_tokenizer_that_is_not_installed_is_named(server, monkeypatch):
    def missing(elmo):
        raise MissingExtra("The tokenizer", "ko")

    monkeypatch.setattr(type(server.elmo), "tokenizer", property(missing))
    server.state.example_words.pop(("tiny", "average"), None)
    message = server.error("/neighbors", 422, sentence=["a"], position=0)
    assert "The tokenizer of tiny is not installed" in message


@pytest.mark.parametrize("language", ["ko", "Korean", "de, fr"])
def test_neighbors_reject_model_of_another_language(language):
    model = LoadedModel("other", ELMo(random_model(attribution={"language": language})))
    with ServerApp({"other": lambda: model}) as server:
        message = server.error("/neighbors", 422, sentence="a dog", position=0)
        facts = server.client.get("/info").json()["models"]["other"]
    assert message == (
        f"The example sentences are English, but the language of other is {language}."
    )
    assert (facts["language"], facts["has_neighbors"]) == (language, False)


@pytest.mark.parametrize("language", ["en", "English (biomedical)", "ko, en", None])
def test_neighbors_accept_model_that_may_be_english(language):
    model = LoadedModel(
        "mine", ELMo(random_model(attribution={"language": language} if language else {}))
    )
    with ServerApp({"mine": lambda: model}) as server:
        data = server.ask("/neighbors", sentence="a dog", position=0)
        facts = server.client.get("/info").json()["models"]["mine"]
    assert data["neighbors"]
    assert (facts["language"], facts["has_neighbors"]) == (language, True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"position": 2}, "position must be from 0 to 1 (got 2)."),
        ({"position": None}, "position must be an integer, not null."),
        ({}, "The field position is missing."),
        ({"position": 0, "n": 101}, "n must be from 1 to 100 (got 101)."),
        ({"position": 0, "layers": "all"}, "layers must be one layer"),
        ({"position": 0, "layers": 9}, "Unknown layers '9'."),
    ],
)
def test_neighbors_reject_wrong_fields(server, fields, message):
    assert message in server.error("/neighbors", 422, sentence="a dog", **fields)
