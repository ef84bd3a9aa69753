"""Config dataclasses to plain data and back, and the help under their fields."""

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

GIVEN = {"data": ("corpus",), "out": "run"}


def test_round_trip():
    assert from_dict(ModelConfig, to_dict(TINY)) == TINY
    assert from_dict(ModelConfig, {}) == ModelConfig()
    assert to_dict(TINY)["encoder"]["filters"] == [[1, 4], [2, 8], [3, 8]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected names with values"),
        ({"lstm": {"cell": 3}}, "unknown name cell; known: cell_dim"),
        ({"lstm": {"cell_dim": "3"}}, "lstm.cell_dim: found str '3', expected int"),
        ({"lstm": {"cell_dim": True}}, "expected int"),
        ({"lstm": {"residual": 1}}, "expected bool"),
        ({"lstm": {"cell_clip": "x"}}, "expected float"),
        ({"encoder": {"activation": "gelu"}}, "expected one of relu, tanh"),
        ({"encoder": {"filters": [[1, 2, 3]]}}, "found 3 values, expected 2"),
        ({"encoder": {"filters": "wide"}}, "expected list"),
    ],
)
def test_wrong_data(data, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(ModelConfig, data)


def test_required_fields_are_named():
    @dataclasses.dataclass(frozen=True)
    class Needs:
        size: int

    with pytest.raises(ConfigError, match="size"):
        from_dict(Needs, {})


def test_optional_and_whole_numbers_for_floats():
    data = {"lstm": {"cell_clip": None, "projection_clip": 3}}
    config = from_dict(ModelConfig, data)
    assert config.lstm.cell_clip is None
    assert config.lstm.projection_clip == 3.0


def test_counts_by_name():
    @dataclasses.dataclass(frozen=True)
    class Counts:
        shards: dict[str, int]

    assert from_dict(Counts, {"shards": {"train": 3}}) == Counts({"train": 3})
    for wrong, message in (({"train": "3"}, "shards.train: found str"), ([3], "expected dict")):
        with pytest.raises(ConfigError, match=message):
            from_dict(Counts, {"shards": wrong})


def test_every_field_has_help():
    for name in elmo.config.__all__:
        config = getattr(elmo.config, name)
        if dataclasses.is_dataclass(config):
            assert set(field_help(config)) == {item.name for item in dataclasses.fields(config)}


# ------------------------------------------------------------------------------- presets and YAML


@pytest.mark.parametrize("name", sorted(presets()))
def test_presets_are_read_and_written_again(name, tmp_path):
    config = load_config(PretrainConfig, name, GIVEN, presets())
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(PretrainConfig, str(tmp_path / "config.yaml")) == config


def test_there_are_the_promised_presets():
    assert set(presets()) == {"tiny", "small", "medium", "original", "ptb", "wikitext-2"}


@pytest.mark.parametrize(
    ("name", "n_weights"),
    [("small", 13_593_296), ("medium", 28_027_728), ("original", 93_600_848)],
)
def test_published_geometries(name, n_weights):
    config = load_config(PretrainConfig, name, GIVEN, presets())
    text = TextConfig(max_characters=config.input.max_characters)
    given = {name: getattr(config.input, name) for name in ("filters", "activation", "n_highway")}
    with torch.device("meta"):
        bilm = BiLM(config=ModelConfig(text, EncoderConfig(**given), config.lstm))
    # Files have no row for the mask.
    mask_row = config.input.character_dim
    assert sum(weight.numel() for weight in bilm.parameters()) - mask_row == n_weights


def test_single_values_win_over_the_file():
    config = load_config(PretrainConfig, "tiny", {**GIVEN, "cell_dim": 32, "unroll": 7}, presets())
    assert (config.lstm.cell_dim, config.stream.unroll) == (32, 7)
    assert config.lstm.projection_dim == 64
    assert config.data == ("corpus",)


def test_defaults_where_there_is_no_file():
    assert load_config(PretrainConfig, None, GIVEN) == PretrainConfig(("corpus",), "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lstm: {cell: 3}", "lstm: unknown name cell; known: cell_dim"),
        ("lstm: 3", "lstm: found int 3, expected names with values"),
        ("- 3", "expected names with values"),
        ("lstm: {cell_dim: wide}", "lstm.cell_dim: found str 'wide', expected int"),
        ("lstm: {cell_dim", "cannot read .* as YAML"),
        ("stream: {reset: 2}", "reset is 2.0"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_config(PretrainConfig, str(tmp_path / "x.yaml"), {**GIVEN, "cell_clip": None})


def test_unknown_presets_and_missing_values():
    with pytest.raises(ConfigError, match=r"no file huge .*; presets: medium, original, ptb"):
        load_config(PretrainConfig, "huge", GIVEN, presets())
    with pytest.raises(ConfigError, match=r"no file huge to read settings from$"):
        load_config(FinetuneConfig, "huge")
    with pytest.raises(ConfigError, match="--out is not given: File to write"):
        load_config(VocabConfig, None, {"input": ("a",)})
    with pytest.raises(ConfigError, match="--out is not given, nor does tiny set out"):
        load_config(PretrainConfig, "tiny", {"data": ("a",)}, presets())


def test_sections_in_part_keep_the_defaults_of_their_verb(tmp_path):
    given = {**GIVEN, "model": "m"}
    usual = load_config(FinetuneConfig, None, given)
    (tmp_path / "x.yaml").write_text("run: {epochs: 7}\ncorpus: {reading: {sentences: split}}")
    config = load_config(FinetuneConfig, str(tmp_path / "x.yaml"), {**given, "beta1": 0.5})
    assert usual.optimizer != OptimizerConfig()
    assert config.optimizer == dataclasses.replace(usual.optimizer, beta1=0.5)
    assert config.run == dataclasses.replace(usual.run, epochs=7.0)
    assert config.stream == usual.stream
    shown = {leaf.name: leaf.default for leaf in leaves(FinetuneConfig)}
    assert shown["learning_rate"] == usual.optimizer.learning_rate


def test_numbers_with_an_exponent(tmp_path):
    (tmp_path / "x.yaml").write_text("optimizer: {learning_rate: 1e-3, clip_norm: 2.5E+1}")
    config = load_config(PretrainConfig, str(tmp_path / "x.yaml"), GIVEN)
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
        ("text_field", "null", "null"),
        ("filters", "[[1,32],[2, 64]]", ((1, 32), (2, 64))),
        ("cutoffs", "[10]", (10,)),
    ],
)
def test_values_as_they_are_typed(name, text, value):
    leaf = {leaf.name: leaf for leaf in leaves(PretrainConfig)}[name]
    found = leaf.from_text(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("batch_size", "many", "--batch-size: found str 'many', expected int"),
        ("batch_size", "none", "expected int"),
        ("order", "up", "--order: found 'up', expected one of shuffled, text"),
        ("filters", "[[1", "--filters: found str .*, expected list"),
        ("filters", "[[1]]", "found 1 values, expected 2"),
    ],
)
def test_values_that_are_refused(name, text, message):
    leaf = {leaf.name: leaf for leaf in leaves(PretrainConfig)}[name]
    with pytest.raises(ConfigError, match=message):
        leaf.from_text(text)


def test_kinds_of_values():
    kinds = {leaf.name: leaf.kind for leaf in leaves(PretrainConfig)}
    assert kinds["batch_size"] == "int"
    assert kinds["order"] == "shuffled|text"
    assert kinds["cell_clip"] == "float|null"
    assert kinds["max_steps"] == "int"
    assert kinds["filters"] == "list"
    assert kinds["data"] == "str"
