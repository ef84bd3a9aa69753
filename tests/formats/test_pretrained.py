"""Tests for `Pretrained`: validation, copies with changes, and parameter counts."""

import dataclasses

import pytest
import torch
from builders import VOCABULARY
from conftest import TINY, random_model
from sources import SOURCES, assert_error

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, FormatError
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained, expected_shapes
from elmo.text.vocabulary import Vocabulary

PROJECTION = "bilm.encoder.projection.weight"


def changed(**weights):
    """Return a tiny model with some weights replaced, or removed if the new value is None."""
    model = random_model()
    names = {name.replace("__", "."): value for name, value in weights.items()}
    merged = {**model.weights, **names}
    return Pretrained(TINY, {k: v for k, v in merged.items() if v is not None}, "test model")


def test_pretrained_accepts_complete_model():
    model = changed()
    assert model.weights.keys() == expected_shapes(TINY).keys()
    assert (
        model.n_parameters
        == sum(tensor.numel() for name, tensor in model.weights.items() if name.startswith("bilm."))
        - TINY.encoder.character_dim
    )


@pytest.mark.parametrize(
    ("weights", "phrases"),
    [
        ({"bilm__encoder__projection__weight": None}, ["Missing", PROJECTION]),
        ({"bilm__extra": torch.ones(1)}, ["Unexpected: bilm.extra"]),
        ({"mixes__0__gamma": None, "mixes__1__gamma": torch.ones(1)}, ["mixes.0.gamma", "mixes.1"]),
        (
            {"bilm__encoder__projection__weight": torch.ones(8, 21)},
            [PROJECTION, "(8, 21)", "implies (8, 20)"],
        ),
        ({"mixes__0__weights": torch.ones(4)}, ["mixes.0.weights", "(4,)", "(3,)"]),
        ({"mixes__0__gamma": torch.tensor(1.0)}, ["mixes.0.gamma", "()", "(1,)"]),
    ],
)
def test_wrong_tensor_names_and_shapes_are_rejected(weights, phrases):
    assert_error(lambda: changed(**weights), "test model", *phrases, error_type=FormatError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [PROJECTION, "mixes.0.gamma"])
def test_nan_and_infinite_weights_are_rejected(value, name):
    tensor = random_model().weights[name].clone()
    tensor.view(-1)[-1] = value
    weights = {name.replace(".", "__"): tensor}
    phrases = ["this test model", name, "NaN or infinite", "damaged"]
    assert_error(lambda: changed(**weights), *phrases, error_type=FormatError)


def test_with_forget_bias_adjusts_lstm_biases():
    model = changed()
    included = model.with_forget_bias(0.0)
    assert included.config.lstm.forget_bias == 0.0
    name = "bilm.backward_lstm.layers.1.bias"
    added = (included.weights[name] - model.weights[name]).chunk(4)
    assert [part.unique().round(decimals=5).tolist() for part in added] == [[0], [1], [0], [0]]
    assert included.with_forget_bias(0.0) is included
    assert included.with_forget_bias(1.0).config == model.config


def test_error_for_many_missing_tensors_lists_only_some_names():
    message = assert_error(lambda: Pretrained(TINY, {}, "test model"), "and", "more")
    assert len(message) < 400


def test_vocabulary_size_must_match_softmax():
    config = dataclasses.replace(TINY, n_softmax_words=8)
    assert random_model(config, vocabulary=Vocabulary(VOCABULARY)).vocabulary is not None
    assert random_model(config).vocabulary is None
    shorter = Vocabulary(VOCABULARY[:-1])
    assert_error(
        lambda: random_model(config, vocabulary=shorter), "8 words", "vocabulary has 7", "another"
    )
    assert random_model(vocabulary=shorter).vocabulary is shorter


DICTIONARY = ModelConfig(
    TextConfig(characters="dictionary", max_characters=12),
    EncoderConfig(
        n_characters=5, character_dim=4, filters=((1, 4),), n_highway=0, n_words=4, word_dim=2
    ),
    TINY.lstm,
)


@pytest.mark.parametrize(
    ("tables", "phrases"),
    [
        ({"words": {"a": 3}}, ["word dictionary", "id 3", "3 rows"]),
        ({"words": {"a": 0, "b": -1}}, ["word dictionary"]),
        ({"characters": {"a": 4}}, ["character dictionary", "id 4", "4 rows"]),
        ({"characters": {"a": -1}}, ["character dictionary"]),
    ],
)
def test_dictionary_ids_must_be_valid_embedding_rows(tables, phrases):
    assert random_model(DICTIONARY, words={"a": 2}, characters={"a": 3, "b": 0})
    assert random_model(DICTIONARY, words={}, characters={})
    assert_error(
        lambda: random_model(DICTIONARY, **tables),
        *phrases,
        "different models",
        error_type=FormatError,
    )


def test_byte_character_embedding_must_have_262_rows():
    encoder = dataclasses.replace(TINY.encoder, n_characters=261)
    config = dataclasses.replace(TINY, encoder=encoder)
    assert_error(lambda: random_model(config), "261 rows", "expected 262", error_type=FormatError)


@pytest.mark.parametrize(
    "sizes",
    [{"character_dim": -1}, {"n_characters": -1}, {"n_words": -2}, {"character_dim": 10**30}],
    ids=repr,
)
def test_invalid_sizes_in_config_are_rejected(sizes):
    config = dataclasses.replace(TINY, encoder=dataclasses.replace(TINY.encoder, **sizes))
    assert_error(lambda: Pretrained(config, {}, "test model"), "sizes", error_type=FormatError)


def test_with_tokenizer_records_known_tokenizer_names():
    model = random_model().with_tokenizer("english")
    assert model.config.text.tokenizer == "english"
    assert model.with_tokenizer("whitespace").config.text.tokenizer == "whitespace"
    assert_error(
        lambda: model.with_tokenizer("klingon"), "klingon", "english", error_type=ConfigError
    )


@pytest.mark.parametrize(
    ("cell_dim", "projection_dim", "n_highway", "n_parameters"),
    [(1024, 128, 1, 13_593_296), (2048, 256, 1, 28_027_728), (4096, 512, 2, 93_600_848)],
)
def test_n_parameters_matches_published_model_sizes(
    cell_dim, projection_dim, n_highway, n_parameters
):
    config = ModelConfig(
        encoder=EncoderConfig(n_highway=n_highway),
        lstm=LSTMConfig(cell_dim=cell_dim, projection_dim=projection_dim),
    )
    zero = torch.zeros(1)
    weights = {name: zero.expand(shape) for name, shape in expected_shapes(config).items()}
    assert Pretrained(config, weights, "published model").n_parameters == n_parameters


def test_n_parameters_excludes_mask_rows(tmp_path):
    model = read(**SOURCES["many langs"].make(tmp_path))
    n_values = sum(
        tensor.numel() for name, tensor in model.weights.items() if name.startswith("bilm.")
    )
    assert model.n_parameters == n_values - 6 - 5
