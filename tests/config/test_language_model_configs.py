"""Tests of the validation of the configs of `elmo lm`."""

import math

import pytest

from elmo.config import LossConfig
from elmo.config.language_model_commands import LMEvaluateConfig, LMTrainConfig
from elmo.config.language_models import (
    AveragingConfig,
    RecurrentConfig,
    RecurrentDropoutConfig,
    RecurrentModelConfig,
    RecurrentRunConfig,
    SymbolConfig,
    TextSampleConfig,
)
from elmo.config.serialization import load_config, presets, to_yaml
from elmo.errors import ConfigError


@pytest.mark.parametrize("cutoffs", [(20, 4), (4, 4), (0, 4), (-3,)])
def test_cutoffs_that_do_not_ascend_from_1_are_rejected(cutoffs):
    with pytest.raises(ConfigError, match="cutoffs must be ascending integers of at least 1"):
        LossConfig(softmax="adaptive", cutoffs=cutoffs)


def test_ascending_cutoffs_are_accepted():
    assert LossConfig(cutoffs=(1, 4, 20)).cutoffs == (1, 4, 20)


def test_cluster_of_adaptive_softmax_needs_a_dimension():
    def model(hidden_dim):
        return RecurrentModelConfig(
            "words", 50, RecurrentConfig(hidden_dim=hidden_dim), softmax_cutoffs=(4, 20)
        )

    with pytest.raises(ConfigError, match=r"at least 16 \(got 15\).*--cutoffs.*--hidden-dim"):
        model(15)
    assert model(16).softmax_cutoffs == (4, 20)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"run": RecurrentRunConfig(patience=3)}, "patience needs held-out text"),
        ({"averaging": AveragingConfig(average="triggered")}, "average: triggered needs held-out"),
    ],
)
def test_options_that_need_held_out_text_are_rejected_without_it(sections, message):
    config = {"text": ("text.txt",), "out": "run", **sections}
    with pytest.raises(ConfigError, match=message):
        LMTrainConfig(**config, symbols=SymbolConfig(valid_fraction=0.0))
    LMTrainConfig(**config, symbols=SymbolConfig(valid_fraction=0.0), valid=("valid.txt",))


@pytest.mark.parametrize("filters", [(), ((0, 4),), ((1, 4), (2, -1))])
def test_filters_without_a_positive_pair_are_rejected(filters):
    with pytest.raises(ConfigError, match="filters must have at least one pair of positive"):
        RecurrentConfig(word_input="characters", filters=filters)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_dim": 512}, r"hidden_dim \(512\) has no effect"),
        ({"cell": "lstmp", "projection_dim": 8}, r"projection_dim \(8\) has no effect"),
    ],
)
def test_width_without_effect_is_rejected_for_training(options, message):
    network = RecurrentConfig(n_layers=1, tied=True, embedding_dim=12, **options)
    with pytest.raises(ConfigError, match=message + r".*input vectors \(12\)"):
        LMTrainConfig(text=("text.txt",), out="run", network=network)
    # Existing models of this kind can be read.
    assert RecurrentModelConfig("characters", 9, network).network is network


@pytest.mark.parametrize(
    "options",
    [{"hidden_dim": 12}, {"cell": "lstmp"}, {"n_layers": 2}, {"embedding_dim": None}],
)
def test_width_with_effect_is_accepted(options):
    options = {"n_layers": 1, "tied": True, "embedding_dim": 12, **options}
    LMTrainConfig(text=("text.txt",), out="run", network=RecurrentConfig(**options))


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_sample_temperature_must_be_a_finite_number(value):
    with pytest.raises(ConfigError, match="sample_temperature must be 0 or more"):
        TextSampleConfig(sample_temperature=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_rates_and_penalties_must_be_finite_numbers(value):
    for name in ("dropout", "weight_drop", "activation_penalty", "slowness_penalty"):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            RecurrentDropoutConfig(**{name: value})
    with pytest.raises(ConfigError, match="label_smoothing must be"):
        LMTrainConfig(text=("text.txt",), out="run", label_smoothing=value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamic_decay": 0.1}, "dynamic_decay needs dynamic_rate"),
        ({"dynamic_unroll": 5}, "dynamic_unroll needs dynamic_rate"),
        ({"dynamic_rate": math.nan}, "dynamic_rate must be above 0"),
        ({"dynamic_rate": 0.1, "dynamic_decay": math.nan}, "dynamic_decay must be a fraction"),
        ({"dynamic_rate": 0.1, "clamp": ("0:1=0",)}, "clamp and dynamic_rate are both given"),
        ({"dynamic_rate": 0.1, "dynamic_unroll": 0}, "dynamic_unroll must be at least 1"),
    ],
)
def test_options_of_dynamic_evaluation_are_validated(options, message):
    with pytest.raises(ConfigError, match=message):
        LMEvaluateConfig(model="run", text=("text.txt",), **options)


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (SymbolConfig(tokenizer="korean"), "tokenizer is only supported with unit: words"),
        (SymbolConfig("bytes", tokenizer="korean"), "tokenizer is only supported with"),
        (SymbolConfig("bytes", min_count=2), "min_count is not supported with unit: bytes"),
    ],
)
def test_options_of_other_symbols_are_rejected_for_training(symbols, message):
    with pytest.raises(ConfigError, match=message):
        LMTrainConfig(("text",), "out", symbols=symbols)


GIVEN = {"text": ("text.txt",), "out": "run"}
PRESETS = presets("language_models")


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"average_decay": 0.999}, "without average: ema"),
        ({"average": "triggered", "average_decay": 0.9}, "without average: ema"),
        ({"average": "ema", "average_patience": 5}, "without average: triggered"),
        ({"filters": ((1, 8),)}, "without word_input: characters"),
        ({"unit": "words", "character_dim": 8}, "without word_input: characters"),
        ({"unit": "words", "n_highway": 1}, "without word_input: characters"),
        ({"softmax": "adaptive", "n_samples": 64}, "without softmax: sampled"),
        ({"cutoffs": (5, 9)}, "without softmax: adaptive"),
        ({"softmax": "adaptive", "unigram_bias": True}, "with softmax: adaptive"),
        ({"accumulator": 0.1}, "without optimizer: adagrad"),
        ({"optimizer": "adagrad", "beta1": 0.8}, "with optimizer: adagrad"),
        ({"optimizer": "adagrad", "beta2": 0.99}, "with optimizer: adagrad"),
        ({"sample_every": 0, "sample_length": 9}, "with sample_every: 0"),
        ({"sample_every": 0, "sample_prompt": "A"}, "with sample_every: 0"),
        ({"sample_every": 0, "sample_temperature": 0.5}, "with sample_every: 0"),
        ({"mlflow_store": "store"}, "without mlflow"),
    ],
)
def test_given_option_without_effect_is_rejected(options, other):
    name = list(options)[-1]
    with pytest.raises(ConfigError, match=f"{name} has no effect {other}"):
        load_config(LMTrainConfig, None, {**GIVEN, **options})


def test_given_fraction_and_file_of_validation_text_are_rejected():
    with pytest.raises(ConfigError, match="Both --valid and --valid-fraction are given"):
        load_config(LMTrainConfig, None, {**GIVEN, "valid": ("b.txt",), "valid_fraction": 0.2})
    load_config(LMTrainConfig, None, {**GIVEN, "valid": ("b.txt",), "valid_fraction": 0.0})


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
    ],
)
def test_given_option_with_effect_is_accepted(options):
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
