"""Tests for the conversion of options.json: all keys, defaults and invalid values."""

import json

import pytest
from builders import GEOMETRIES, make_options
from sources import assert_error

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import FormatError
from elmo.formats.bilm_options import config_from_options, options_from_config

REMOVED = "(removed)"


def changed(path, value):
    """Return valid options with one key replaced or removed, such as `lstm.dim`."""
    options = make_options()
    *sections, key = path.split(".")
    section = options
    for name in sections:
        section = section[name]
    if value is REMOVED:
        del section[key]
    else:
        section[key] = value
    return options


def test_config_from_options_reads_every_key():
    options = make_options(clip=2.5, highway=2, activation="tanh")
    options["lstm"]["proj_clip"] = 4
    assert config_from_options(options, "x") == (
        ModelConfig(
            TextConfig(max_characters=12),
            EncoderConfig(
                n_characters=262,
                character_dim=4,
                filters=((1, 4), (2, 8), (3, 8)),
                activation="tanh",
                n_highway=2,
            ),
            LSTMConfig(
                cell_dim=16,
                projection_dim=8,
                n_layers=2,
                cell_clip=2.5,
                projection_clip=4.0,
                residual=True,
                forget_bias=1.0,
            ),
        ),
        [],
    )


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_options_from_config_inverts_config_from_options(geometry):
    config, _ = config_from_options(make_options(**GEOMETRIES[geometry]), "x")
    written = json.loads(json.dumps(options_from_config(config)))
    assert written == make_options(**GEOMETRIES[geometry])
    assert config_from_options(written, "x") == (config, [])


def test_options_without_character_section_describe_word_id_model():
    config, notes = config_from_options(make_options(characters=False), "x", n_words=8)
    assert config.text.characters == "none"
    assert (config.encoder.n_words, config.encoder.word_dim) == (9, 8)
    assert not config.encoder.project
    assert notes == []


def test_keys_that_only_affect_training_are_ignored():
    options = {
        **make_options(),
        "bidirectional": True,
        "n_tokens_vocab": 793471,
        "unroll_steps": "whatever",
        "dropout": None,
    }
    assert config_from_options(options, "x") == config_from_options(make_options(), "x")


@pytest.mark.parametrize(
    ("path", "value", "field_path", "expected"),
    [
        ("lstm.n_layers", REMOVED, "lstm.n_layers", 1),
        ("lstm.use_skip_connections", REMOVED, "lstm.residual", False),
        ("lstm.use_skip_connections", None, "lstm.residual", False),
        ("lstm.cell_clip", REMOVED, "lstm.cell_clip", None),
        ("lstm.proj_clip", None, "lstm.projection_clip", None),
        ("lstm.dim", 32.0, "lstm.cell_dim", 32),
        ("char_cnn.n_highway", REMOVED, "encoder.n_highway", 0),
        ("char_cnn.n_highway", None, "encoder.n_highway", 0),
        ("char_cnn.n_characters", REMOVED, "encoder.n_characters", 262),
        ("char_cnn.filters", [[1, 3], [2, 5]], "encoder.project", False),
    ],
)
def test_missing_option_keys_get_defaults(path, value, field_path, expected):
    config, notes = config_from_options(changed(path, value), "x")
    section, field = field_path.split(".")
    assert getattr(getattr(config, section), field) == expected
    assert notes == []


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        ("char_cnn.n_characters", 261, "261"),
        ("lstm.cell_clip", 0, "cell_clip is 0: treated as no clipping"),
        ("lstm.proj_clip", 0.0, "proj_clip is 0: treated as no clipping"),
    ],
)
def test_corrected_option_values_are_noted(path, value, note):
    config, notes = config_from_options(changed(path, value), "x")
    assert len(notes) == 1
    assert note in notes[0]
    assert config.encoder.n_characters == 262
    assert None in (config.lstm.cell_clip, config.lstm.projection_clip) or "clip" not in path


INVALID = [
    ("lstm", REMOVED, "no lstm section"),
    ("lstm", [], "lstm is of type list, expected a JSON object"),
    ("lstm.dim", REMOVED, "has no key 'dim'. Its keys are: projection_dim"),
    ("lstm.projection_dim", REMOVED, "has no key 'projection_dim'"),
    *(
        (f"lstm.{key}", value, key)
        for key in ("dim", "projection_dim", "n_layers")
        for value in (
            "16",
            -1,
            1.5,
            True,
            None,
            [16],
            {},
            float("nan"),
            float("inf"),
        )
    ),
    ("lstm.dim", 0, "cell_dim must be at least 1 (got 0)"),
    ("lstm.projection_dim", 0, "projection_dim must be at least 1"),
    ("lstm.n_layers", 0, "n_layers must be at least 1"),
    *(
        (f"lstm.{key}", value, f"{key} is {value!r}, expected a positive number or null")
        for key in ("cell_clip", "proj_clip")
        for value in ("3", -3, True, [3], float("nan"), float("inf"), float("-inf"))
    ),
    ("lstm.cell_clip", 10**400, "expected a positive number"),
    *(
        ("lstm.use_skip_connections", value, f"{value!r}, expected true or false")
        for value in ("false", 0, 1, [])
    ),
    ("bidirectional", False, "unidirectional"),
    ("char_cnn", None, "char_cnn is of type NoneType, expected a JSON object"),
    ("char_cnn", {}, "char_cnn"),
    ("char_cnn.n_characters", 100, "n_characters is 100, expected 262"),
    ("char_cnn.n_characters", 263, "n_characters is 263, expected 262"),
    ("char_cnn.n_characters", "262", "n_characters is '262'"),
    ("char_cnn.max_characters_per_token", REMOVED, "has no key 'max_characters_per_token'"),
    ("char_cnn.max_characters_per_token", 2, "max_characters must be at least 3"),
    ("char_cnn.max_characters_per_token", -50, "max_characters_per_token is -50"),
    ("char_cnn.embedding", REMOVED, "has no key 'embedding'"),
    ("char_cnn.embedding", 4, "embedding is of type int, expected a JSON object"),
    ("char_cnn.embedding.dim", "4", "embedding.dim is '4'"),
    ("char_cnn.activation", REMOVED, "activation is None, expected relu or tanh"),
    ("char_cnn.activation", "gelu", "activation is 'gelu', expected relu or tanh"),
    ("char_cnn.activation", ["relu"], "expected relu or tanh"),
    ("char_cnn.filters", REMOVED, "filters is None, expected [width, count] pairs"),
    *(
        ("char_cnn.filters", value, "expected [width, count] pairs")
        for value in ("1x4", [1, 4], [[1, 4, 2]], [[1]], [["1", 4]], [[1.0, 4]], [[True, 4]], {})
    ),
    ("char_cnn.filters", [], "needs at least one filter"),
    ("char_cnn.filters", [[0, 4]], "must be pairs of positive integers"),
    ("char_cnn.filters", [[1, -4]], "must be pairs of positive integers"),
    (
        "char_cnn.filters",
        [[13, 4]],
        "A filter of width 13 does not fit into a token of 12 characters",
    ),
    ("char_cnn.n_highway", -1, "n_highway is -1"),
    ("char_cnn.n_highway", "two", "n_highway is 'two'"),
]


@pytest.mark.parametrize(("path", "value", "message"), INVALID)
def test_error_for_invalid_option_names_the_key(path, value, message):
    options = changed(path, value)
    assert_error(
        lambda: config_from_options(options, "my.json"), "my.json", message, error_type=FormatError
    )


@pytest.mark.parametrize("options", [None, [], "text", 3, {}, {"model": {"type": "tagger"}}])
def test_json_that_is_not_bilm_options_is_rejected(options):
    assert_error(lambda: config_from_options(options, "my.json"), "my.json", error_type=FormatError)
