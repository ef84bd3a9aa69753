"""Tests of the mixes a model is given: its own, initial ones, and those a user asks for."""

import dataclasses

import pytest
import torch
from conftest import TINY, random_model
from sources import refused

from elmo.config import MixConfig
from elmo.errors import ConfigError
from elmo.formats.mixes import initial_mixes, with_mixes
from elmo.formats.pretrained import Pretrained


@pytest.fixture
def model():
    """A model with two trained mixes and a recorded layer norm."""
    config = dataclasses.replace(TINY, mix=MixConfig(2, "bilm-tf"))
    weights = dict(random_model(config).weights)
    for number in range(2):
        weights[f"mixes.{number}.weights"] = torch.tensor([0.5, -1.0, 2.0 + number])
        weights[f"mixes.{number}.gamma"] = torch.tensor([3.0 + number])
    return Pretrained(config, weights, "test model")


def mixes_of(model):
    return {name: v.tolist() for name, v in model.weights.items() if name.startswith("mixes.")}


def test_initial_mixes_are_plain_means():
    mixes = initial_mixes(4, 2)
    assert len(mixes) == 4
    for number in range(2):
        assert mixes[f"mixes.{number}.weights"].tolist() == [0, 0, 0, 0]
        assert mixes[f"mixes.{number}.gamma"].tolist() == [1]


def test_asked_for_as_many_the_model_keeps_all(model):
    same = with_mixes(model, n_mixes=2)
    assert same.config == model.config
    assert mixes_of(same) == mixes_of(model)


@pytest.mark.parametrize("n_mixes", [0, 1, 2, 3])
def test_more_or_fewer(model, n_mixes, caplog):
    found = with_mixes(model, n_mixes=n_mixes)
    assert found.config.mix == MixConfig(n_mixes, "bilm-tf")
    mixes = mixes_of(found)
    assert len(mixes) == 2 * n_mixes
    assert ("comes with 2 mixes" in caplog.text) == (n_mixes < 2)
    for name, values in mixes_of(model).items():
        assert mixes.get(name, values) == values
    if n_mixes == 3:
        assert mixes["mixes.2.weights"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("asked", "program"),
    [(False, "bilm-tf"), (True, "allennlp"), ("none", "none"), ("allennlp", "allennlp")],
)
def test_layer_norm(model, asked, program):
    found = with_mixes(model, n_mixes=2, layer_norm=asked)
    assert found.config.mix.layer_norm == program


@pytest.mark.parametrize("asked", [True, False])
def test_top_only(model, asked):
    found = with_mixes(model, n_mixes=2, top_only=asked)
    assert found.config.mix.top_only is asked
    kept = with_mixes(found, n_mixes=2)
    assert kept.config.mix.top_only is asked


def test_fixed_weights_replace_the_models_own_but_not_gamma(model):
    found = with_mixes(model, n_mixes=2, fixed=[-9e10, 1, -9e10])
    mixes = mixes_of(found)
    for number in range(2):
        assert mixes[f"mixes.{number}.weights"] == torch.tensor([-9e10, 1, -9e10]).tolist()
        assert mixes[f"mixes.{number}.gamma"] == [3 + number]


def test_the_model_given_is_not_touched(model):
    before = mixes_of(model)
    found = with_mixes(model, n_mixes=2, fixed=[1, 2, 3])
    for tensor in found.weights.values():
        if tensor.numel() <= 3:
            tensor.add_(1)
    assert mixes_of(model) == before


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"fixed": [1, 2]}, ["2 weights", "3 layers"]),
        ({"fixed": []}, ["0 weights", "3 layers"]),
        ({"layer_norm": "batch"}, ["batch", "bilm-tf"]),
        ({"layer_norm": 1}, ["1", "bilm-tf"]),
        ({"n_mixes": -1}, ["-1"]),
    ],
)
def test_what_cannot_be(model, asked, words):
    refused(lambda: with_mixes(model, **asked), *words, kind=ConfigError)
