"""Tests for the layer mixes of a loaded model: stored, initial and requested mixes."""

import dataclasses

import pytest
import torch
from conftest import TINY, random_model
from sources import assert_error

from elmo.config import MixConfig
from elmo.errors import ConfigError
from elmo.formats.mixes import initial_mixes, with_mixes
from elmo.formats.pretrained import Pretrained


@pytest.fixture
def model():
    """Return a model with two trained layer mixes and a layer norm setting."""
    config = dataclasses.replace(TINY, mix=MixConfig(2, "bilm-tf"))
    weights = dict(random_model(config).weights)
    for number in range(2):
        weights[f"mixes.{number}.weights"] = torch.tensor([0.5, -1.0, 2.0 + number])
        weights[f"mixes.{number}.gamma"] = torch.tensor([3.0 + number])
    return Pretrained(config, weights, "test model")


def mixes_of(model):
    return {name: v.tolist() for name, v in model.weights.items() if name.startswith("mixes.")}


def test_initial_mixes_are_unweighted_means():
    mixes = initial_mixes(4, 2)
    assert len(mixes) == 4
    for number in range(2):
        assert mixes[f"mixes.{number}.weights"].tolist() == [0, 0, 0, 0]
        assert mixes[f"mixes.{number}.gamma"].tolist() == [1]


def test_with_mixes_returns_all_mixes_if_number_is_unchanged(model):
    same = with_mixes(model, n_mixes=2)
    assert same.config == model.config
    assert mixes_of(same) == mixes_of(model)


@pytest.mark.parametrize("n_mixes", [0, 1, 2, 3])
def test_with_mixes_adds_or_drops_mixes(model, n_mixes, caplog):
    result = with_mixes(model, n_mixes=n_mixes)
    assert result.config.mix == MixConfig(n_mixes, "bilm-tf")
    mixes = mixes_of(result)
    assert len(mixes) == 2 * n_mixes
    assert ("the model has 2 mixes" in caplog.text) == (n_mixes < 2)
    for name, values in mixes_of(model).items():
        assert mixes.get(name, values) == values
    if n_mixes == 3:
        assert mixes["mixes.2.weights"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(False, "bilm-tf"), (True, "allennlp"), ("none", "none"), ("allennlp", "allennlp")],
)
def test_with_mixes_sets_layer_norm(model, requested, expected):
    result = with_mixes(model, n_mixes=2, layer_norm=requested)
    assert result.config.mix.layer_norm == expected


@pytest.mark.parametrize("requested", [True, False])
def test_with_mixes_sets_top_only(model, requested):
    result = with_mixes(model, n_mixes=2, top_only=requested)
    assert result.config.mix.top_only is requested
    again = with_mixes(result, n_mixes=2)
    assert again.config.mix.top_only is requested


def test_fixed_mix_weights_replace_weights_but_not_gamma(model):
    result = with_mixes(model, n_mixes=2, fixed=[-9e10, 1, -9e10])
    mixes = mixes_of(result)
    for number in range(2):
        assert mixes[f"mixes.{number}.weights"] == torch.tensor([-9e10, 1, -9e10]).tolist()
        assert mixes[f"mixes.{number}.gamma"] == [3 + number]


def test_with_mixes_does_not_change_its_argument(model):
    before = mixes_of(model)
    result = with_mixes(model, n_mixes=2, fixed=[1, 2, 3])
    for tensor in result.weights.values():
        if tensor.numel() <= 3:
            tensor.add_(1)
    assert mixes_of(model) == before


@pytest.mark.parametrize(
    ("requested", "phrases"),
    [
        ({"fixed": [1, 2]}, ["2 weights", "3 layers"]),
        ({"fixed": []}, ["0 weights", "3 layers"]),
        ({"layer_norm": "batch"}, ["batch", "bilm-tf"]),
        ({"layer_norm": 1}, ["1", "bilm-tf"]),
        ({"n_mixes": -1}, ["-1"]),
    ],
)
def test_with_mixes_rejects_invalid_arguments(model, requested, phrases):
    assert_error(lambda: with_mixes(model, **requested), *phrases, error_type=ConfigError)
