"""Tests of converting config dataclasses to and from plain data, YAML and flags."""

import dataclasses

import pytest
import torch
from conftest import TINY

import elmo.config
from elmo.config import (
    EncoderConfig,
    FinetuneConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainConfig,
    TextConfig,
    VocabConfig,
)
from elmo.config.serialization import (
    field_help,
    from_dict,
    leaves,
    load_config,
    presets,
    to_dict,
    to_yaml,
)
from elmo.errors import ConfigError
from elmo.model.bilm import BiLM

REQUIRED = {"data": ("corpus",), "out": "run"}


def test_config_survives_a_round_trip_through_plain_data():
    assert from_dict(ModelConfig, to_dict(TINY)) == TINY
    assert from_dict(ModelConfig, {}) == ModelConfig()
    assert to_dict(TINY)["encoder"]["filters"] == [[1, 4], [2, 8], [3, 8]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected a mapping of options"),
        ({"lstm": {"cell-dims": 3}}, "unknown option cell-dims. Did you mean cell_dim"),
        ({"lsmt": {}}, "unknown option lsmt. Did you mean lstm"),
        ({"cell_dims": 3}, "unknown option cell_dims. Did you mean lstm.cell_dim"),
        ({"zzz": 3}, "unknown option zzz. Expected: text, encoder"),
        ({"lstm": {"cell_dim": "3"}}, r"lstm.cell_dim: expected int \(got str '3'\)"),
        ({"lstm": {"cell_dim": True}}, "expected int"),
        ({"lstm": {"residual": 1}}, "expected bool"),
        ({"lstm": {"cell_clip": "x"}}, "expected float"),
        ({"encoder": {"activation": "gelu"}}, "expected one of relu, tanh"),
        ({"encoder": {"filters": [[1, 2, 3]]}}, r"expected 2 values \(got 3\)"),
        ({"encoder": {"filters": "wide"}}, "expected list"),
    ],
)
def test_from_dict_rejects_invalid_data(data, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(ModelConfig, data)


def test_from_dict_error_names_the_missing_required_field():
    @dataclasses.dataclass(frozen=True)
    class Needs:
        size: int

    with pytest.raises(ConfigError, match="size"):
        from_dict(Needs, {})


def test_from_dict_accepts_null_and_integers_for_float_fields():
    data = {"lstm": {"cell_clip": None, "projection_clip": 3}}
    config = from_dict(ModelConfig, data)
    assert config.lstm.cell_clip is None
    assert config.lstm.projection_clip == 3.0


def test_from_dict_validates_the_values_of_mapping_fields():
    @dataclasses.dataclass(frozen=True)
    class Counts:
        shards: dict[str, int]

    assert from_dict(Counts, {"shards": {"train": 3}}) == Counts({"train": 3})
    for wrong, message in (({"train": "3"}, "shards.train: expected int"), ([3], "expected dict")):
        with pytest.raises(ConfigError, match=message):
            from_dict(Counts, {"shards": wrong})


def test_every_config_field_has_a_help_text():
    for name in elmo.config.__all__:
        config = getattr(elmo.config, name)
        if dataclasses.is_dataclass(config):
            assert set(field_help(config)) == {item.name for item in dataclasses.fields(config)}


# ------------------------------------------------------------------------------- presets and YAML


@pytest.mark.parametrize("name", sorted(presets()))
def test_preset_survives_a_yaml_round_trip(name, tmp_path):
    config = load_config(PretrainConfig, name, REQUIRED, presets())
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(PretrainConfig, str(tmp_path / "config.yaml")) == config


def test_all_expected_presets_exist():
    assert set(presets()) == {"tiny", "small", "medium", "original", "ptb", "wikitext-2"}


@pytest.mark.parametrize(
    ("name", "n_weights"),
    [("small", 13_593_296), ("medium", 28_027_728), ("original", 93_600_848)],
)
def test_preset_has_the_published_number_of_weights(name, n_weights):
    config = load_config(PretrainConfig, name, REQUIRED, presets())
    text = TextConfig(max_characters=config.input.max_characters)
    encoder = {name: getattr(config.input, name) for name in ("filters", "activation", "n_highway")}
    with torch.device("meta"):
        bilm = BiLM(config=ModelConfig(text, EncoderConfig(**encoder), config.lstm))
    # Published files have no mask row.
    mask_row = config.input.character_dim
    assert sum(weight.numel() for weight in bilm.parameters()) - mask_row == n_weights


def test_individual_options_override_config_file():
    config = load_config(
        PretrainConfig, "tiny", {**REQUIRED, "cell_dim": 32, "unroll": 7}, presets()
    )
    assert (config.lstm.cell_dim, config.stream.unroll) == (32, 7)
    assert config.lstm.projection_dim == 64
    assert config.data == ("corpus",)


def test_load_config_without_a_file_uses_defaults():
    assert load_config(PretrainConfig, None, REQUIRED) == PretrainConfig(("corpus",), "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lstm: {cell: 3}", "lstm: unknown option cell. Expected: cell_dim"),
        ("lstm: 3", r"lstm: expected a mapping of options \(got int 3\)"),
        ("- 3", "expected a mapping of options"),
        ("lstm: {cell_dim: wide}", r"lstm.cell_dim: expected int \(got str 'wide'\)"),
        ("lstm: {cell_dim", "is not valid YAML"),
        ("stream: {reset: 2}", r"reset must be .*got 2.0"),
    ],
)
def test_load_config_rejects_invalid_files(tmp_path, content, message):
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_config(PretrainConfig, str(tmp_path / "x.yaml"), {**REQUIRED, "cell_clip": None})


def test_load_config_errors_name_unknown_preset_and_missing_option():
    with pytest.raises(
        ConfigError, match=r"file huge does not exist. Available presets: medium, original, ptb"
    ):
        load_config(PretrainConfig, "huge", REQUIRED, presets())
    with pytest.raises(ConfigError, match=r"orignal does not exist\. Did you mean original"):
        load_config(PretrainConfig, "orignal", REQUIRED, presets())
    with pytest.raises(ConfigError, match=r"file huge does not exist\.$"):
        load_config(FinetuneConfig, "huge")
    with pytest.raises(ConfigError, match="--out is required: Output file"):
        load_config(VocabConfig, None, {"input": ("a",)})
    with pytest.raises(ConfigError, match="--out is required, and tiny does not set out"):
        load_config(PretrainConfig, "tiny", {"data": ("a",)}, presets())


def test_partially_specified_section_uses_defaults_of_the_command(tmp_path):
    required = {**REQUIRED, "model": "m"}
    default = load_config(FinetuneConfig, None, required)
    (tmp_path / "x.yaml").write_text("run: {epochs: 7}\ncorpus: {reading: {sentences: split}}")
    config = load_config(FinetuneConfig, str(tmp_path / "x.yaml"), {**required, "beta1": 0.5})
    assert default.optimizer != OptimizerConfig()
    assert config.optimizer == dataclasses.replace(default.optimizer, beta1=0.5)
    assert config.run == dataclasses.replace(default.run, epochs=7.0)
    assert config.stream == default.stream
    shown = {leaf.name: leaf.default for leaf in leaves(FinetuneConfig)}
    assert shown["learning_rate"] == default.optimizer.learning_rate


def test_yaml_number_with_exponent_is_read_as_float(tmp_path):
    (tmp_path / "x.yaml").write_text("optimizer: {learning_rate: 1e-3, clip_norm: 2.5E+1}")
    config = load_config(PretrainConfig, str(tmp_path / "x.yaml"), REQUIRED)
    assert (config.optimizer.learning_rate, config.optimizer.clip_norm) == (0.001, 25.0)


# ------------------------------------------------------------------------------------------ flags


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("batch_size", "64", 64),
        ("learning_rate", "3e-3", 0.003),
        ("order", "text", "text"),
        ("characters", "none", "none"),
        ("cell_clip", "none", None),
        ("cell_clip", "2", 2.0),
        ("max_steps", "null", None),
        ("vocab", "words.txt", "words.txt"),
        ("text_column", "null", "null"),
        ("filters", "[[1,32],[2, 64]]", ((1, 32), (2, 64))),
        ("cutoffs", "[10]", (10,)),
    ],
)
def test_leaf_parses_command_line_text(name, text, value):
    leaf = {leaf.name: leaf for leaf in leaves(PretrainConfig)}[name]
    parsed = leaf.from_text(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("batch_size", "many", r"--batch-size: expected int \(got str 'many'\)"),
        ("batch_size", "none", "expected int"),
        ("order", "up", r"--order: expected one of shuffled, text \(got 'up'\)"),
        ("filters", "[[1", "--filters: expected list"),
        ("filters", "[[1]]", r"expected 2 values \(got 1\)"),
    ],
)
def test_leaf_rejects_invalid_command_line_text(name, text, message):
    leaf = {leaf.name: leaf for leaf in leaves(PretrainConfig)}[name]
    with pytest.raises(ConfigError, match=message):
        leaf.from_text(text)


def test_leaf_type_name_matches_the_field_type():
    names = {leaf.name: leaf.type_name for leaf in leaves(PretrainConfig)}
    assert names["batch_size"] == "int"
    assert names["order"] == "shuffled|text"
    assert names["cell_clip"] == "float|null"
    assert names["max_steps"] == "int"
    assert names["filters"] == "list"
    assert names["data"] == "str"
