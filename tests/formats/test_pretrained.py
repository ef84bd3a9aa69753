"""Tests of the one place where a model is checked, whoever read it."""

import dataclasses

import pytest
import torch
from builders import VOCABULARY
from conftest import TINY, random_model
from sources import SOURCES, refused

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, FormatError
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained, expected_shapes
from elmo.text.vocabulary import Vocabulary

PROJECTION = "bilm.encoder.projection.weight"


def changed(**weights):
    """Give the tiny model with some of its weights replaced; None takes one away."""
    model = random_model()
    names = {name.replace("__", "."): value for name, value in weights.items()}
    merged = {**model.weights, **names}
    return Pretrained(TINY, {k: v for k, v in merged.items() if v is not None}, "test model")


def test_a_whole_model():
    model = changed()
    assert model.weights.keys() == expected_shapes(TINY).keys()
    assert (
        model.n_parameters
        == sum(tensor.numel() for name, tensor in model.weights.items() if name.startswith("bilm."))
        - TINY.encoder.character_dim
    )


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"bilm__encoder__projection__weight": None}, ["missing", PROJECTION]),
        ({"bilm__odd": torch.ones(1)}, ["not expected bilm.odd"]),
        ({"mixes__0__gamma": None, "mixes__1__gamma": torch.ones(1)}, ["mixes.0.gamma", "mixes.1"]),
        (
            {"bilm__encoder__projection__weight": torch.ones(8, 21)},
            [PROJECTION, "(8, 21)", "implies (8, 20)"],
        ),
        ({"mixes__0__weights": torch.ones(4)}, ["mixes.0.weights", "(4,)", "(3,)"]),
        ({"mixes__0__gamma": torch.tensor(1.0)}, ["mixes.0.gamma", "()", "(1,)"]),
    ],
)
def test_names_and_shapes(weights, words):
    refused(lambda: changed(**weights), "test model", *words, kind=FormatError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [PROJECTION, "mixes.0.gamma"])
def test_values(value, name):
    tensor = random_model().weights[name].clone()
    tensor.view(-1)[-1] = value
    weights = {name.replace(".", "__"): tensor}
    words = ["this test model", name, "NaN or infinite", "damaged"]
    refused(lambda: changed(**weights), *words, kind=FormatError)


def test_the_forget_bias_may_stand_inside_the_biases():
    model = changed()
    inside = model.with_forget_bias(0.0)
    assert inside.config.lstm.forget_bias == 0.0
    name = "bilm.backward_lstm.layers.1.bias"
    added = (inside.weights[name] - model.weights[name]).chunk(4)
    assert [part.unique().round(decimals=5).tolist() for part in added] == [[0], [1], [0], [0]]
    assert inside.with_forget_bias(0.0) is inside
    assert inside.with_forget_bias(1.0).config == model.config


def test_many_names_are_not_all_listed():
    message = refused(lambda: Pretrained(TINY, {}, "test model"), "and", "more")
    assert len(message) < 400


def test_a_vocabulary_must_have_the_words_of_the_softmax():
    config = dataclasses.replace(TINY, n_softmax_words=8)
    assert random_model(config, vocabulary=Vocabulary(VOCABULARY)).vocabulary is not None
    assert random_model(config).vocabulary is None
    short = Vocabulary(VOCABULARY[:-1])
    refused(lambda: random_model(config, vocabulary=short), "8 words", "vocabulary 7", "another")
    assert random_model(vocabulary=short).vocabulary is short


DICTIONARY = ModelConfig(
    TextConfig(characters="dictionary", max_characters=12),
    EncoderConfig(
        n_characters=5, character_dim=4, filters=((1, 4),), n_highway=0, n_words=4, word_dim=2
    ),
    TINY.lstm,
)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"words": {"a": 3}}, ["word dictionary", "id 3", "3 rows"]),
        ({"words": {"a": 0, "b": -1}}, ["word dictionary"]),
        ({"characters": {"a": 4}}, ["character dictionary", "id 4", "4 rows"]),
        ({"characters": {"a": -1}}, ["character dictionary"]),
    ],
)
def test_dictionaries_must_lie_inside_their_tables(tables, words):
    assert random_model(DICTIONARY, words={"a": 2}, characters={"a": 3, "b": 0})
    assert random_model(DICTIONARY, words={}, characters={})
    refused(lambda: random_model(DICTIONARY, **tables), *words, "two models", kind=FormatError)


def test_bytes_have_262_rows():
    encoder = dataclasses.replace(TINY.encoder, n_characters=261)
    config = dataclasses.replace(TINY, encoder=encoder)
    refused(lambda: random_model(config), "261 rows", "expected 262", kind=FormatError)


@pytest.mark.parametrize(
    "sizes",
    [{"character_dim": -1}, {"n_characters": -1}, {"n_words": -2}, {"character_dim": 10**30}],
    ids=repr,
)
def test_sizes_no_network_can_have(sizes):
    config = dataclasses.replace(TINY, encoder=dataclasses.replace(TINY.encoder, **sizes))
    refused(lambda: Pretrained(config, {}, "test model"), "sizes", kind=FormatError)


def test_tokenizer_is_recorded():
    model = random_model().with_tokenizer("english")
    assert model.config.text.tokenizer == "english"
    assert model.with_tokenizer("whitespace").config.text.tokenizer == "whitespace"
    refused(lambda: model.with_tokenizer("klingon"), "klingon", "english", kind=ConfigError)


@pytest.mark.parametrize(
    ("cell_dim", "projection_dim", "n_highway", "n_parameters"),
    [(1024, 128, 1, 13_593_296), (2048, 256, 1, 28_027_728), (4096, 512, 2, 93_600_848)],
)
def test_published_models_have_as_many_parameters_as_published(
    cell_dim, projection_dim, n_highway, n_parameters
):
    config = ModelConfig(
        encoder=EncoderConfig(n_highway=n_highway),
        lstm=LSTMConfig(cell_dim=cell_dim, projection_dim=projection_dim),
    )
    zero = torch.zeros(1)
    weights = {name: zero.expand(shape) for name, shape in expected_shapes(config).items()}
    assert Pretrained(config, weights, "published model").n_parameters == n_parameters


def test_word_tables_do_not_count_their_mask_row(tmp_path):
    model = read(**SOURCES["many langs"].make(tmp_path))
    theirs = sum(
        tensor.numel() for name, tensor in model.weights.items() if name.startswith("bilm.")
    )
    assert model.n_parameters == theirs - 6 - 5
