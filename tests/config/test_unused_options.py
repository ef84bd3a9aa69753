"""Tests that options without effect are rejected if the user gave them."""

import pytest

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import RecurrentConfig
from elmo.config.serialization import load_config, presets, to_yaml
from elmo.errors import ConfigError
from elmo.tasks import TaskConfig

GIVEN = {"text": ("text.txt",), "out": "run"}
PRESETS = presets("language_models")


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"average_decay": 0.99}, "without average: ema"),
        ({"average": "triggered", "average_decay": 0.9}, "without average: ema"),
        ({"average": "ema", "average_patience": 9}, "without average: triggered"),
        ({"filters": ((1, 8),)}, "without word_input: characters"),
        ({"unit": "words", "character_dim": 8}, "without word_input: characters"),
        ({"unit": "words", "n_highway": 1}, "without word_input: characters"),
        ({"softmax": "adaptive", "n_samples": 64}, "without softmax: sampled"),
        ({"cutoffs": (5, 9)}, "without softmax: adaptive"),
        ({"softmax": "adaptive", "unigram_bias": False}, "with softmax: adaptive"),
        ({"accumulator": 0.1}, "without optimizer: adagrad"),
        ({"optimizer": "adagrad", "beta1": 0.8}, "with optimizer: adagrad"),
        ({"optimizer": "adagrad", "beta2": 0.95}, "with optimizer: adagrad"),
        ({"sample_every": 0, "sample_length": 9}, "with sample_every: 0"),
        ({"sample_every": 0, "sample_prompt": "A"}, "with sample_every: 0"),
        ({"sample_every": 0, "sample_temperature": 0.5}, "with sample_every: 0"),
        ({"mlflow_store": "store"}, "without mlflow"),
        ({"valid": ("b.txt",), "valid_fraction": 0.2}, "with valid"),
    ],
)
def test_given_option_without_effect_is_rejected(options, other):
    name = list(options)[-1]
    with pytest.raises(ConfigError, match=f"{name} has no effect {other}"):
        load_config(LMTrainConfig, None, {**GIVEN, **options})


@pytest.mark.parametrize(
    ("config", "required"),
    [
        (PretrainConfig, {"data": ("text",), "out": "run"}),
        (FinetuneConfig, {"model": "small-en", "data": ("text",), "out": "run"}),
        (TaskConfig, {"task": "tagging", "out": "run"}),
    ],
)
def test_options_without_effect_are_rejected_for_all_commands(config, required):
    options = {"optimizer": "adamw", "accumulator": 0.1}
    with pytest.raises(ConfigError, match="accumulator has no effect without optimizer: adagrad"):
        load_config(config, None, {**required, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"average": "ema", "average_decay": 0.9},
        {"average": "triggered", "average_patience": 9},
        {"unit": "words", "word_input": "characters", "filters": ((1, 8),), "n_highway": 0},
        {"softmax": "sampled", "n_samples": 64},
        {"softmax": "adaptive", "cutoffs": (5, 9)},
        {"optimizer": "adagrad", "accumulator": 0.1},
        {"optimizer": "muon", "beta1": 0.8},
        {"sample_length": 9},
        {"mlflow": True, "mlflow_store": "store"},
        {"valid": ("b.txt",), "valid_fraction": 0.0},
        {"filters": RecurrentConfig.filters, "average_patience": 5, "mlflow_store": None},
    ],
)
def test_given_option_with_effect_or_with_its_default_is_accepted(options):
    load_config(LMTrainConfig, None, {**GIVEN, **options})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average": "none"},
        {"optimizer": "adagrad", "weight_decay": 0.0},
        {"word_input": "ids"},
        {"valid": ("b.txt",)},
        {"sample_every": 0},
    ],
)
def test_values_of_a_preset_can_become_unused(preset, options):
    load_config(LMTrainConfig, preset, {**GIVEN, **options}, PRESETS)


def test_recorded_config_of_a_run_is_accepted(tmp_path):
    config = load_config(LMTrainConfig, "ptb-awd", {**GIVEN, "average": "none"}, PRESETS)
    (tmp_path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    assert load_config(LMTrainConfig, str(tmp_path / "config.yaml"), {}) == config
