"""Config dataclasses to plain data and back, and the help under their fields."""

import dataclasses

import pytest
from conftest import TINY

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError
from elmo.plain import field_help, from_dict, to_dict


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
        ({"encoder": {"filters": "wide"}}, "expected tuple"),
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


def test_every_field_has_help():
    for config in (TextConfig, EncoderConfig, LSTMConfig, MixConfig, ModelConfig):
        assert set(field_help(config)) == {item.name for item in dataclasses.fields(config)}
