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
from elmo.config.serialization import load_config, presets
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


@pytest.mark.parametrize(
    ("preset", "n_symbols", "n_steps"),
    [
        ("char-ptb", 5_017_482, 88_232),
        ("ptb-awd", 929_589, 17_848),
        ("wikitext-2-awd", 2_088_628, 15_291),
    ],
)
def test_preset_trains_as_many_steps_as_its_recorded_run(preset, n_symbols, n_steps):
    required = {"text": ("text",), "out": "out"}
    config = load_config(LMTrainConfig, preset, required, presets("language_models"))
    n_segments = n_symbols // (config.segments.batch_size * config.segments.unroll)
    assert round(config.run.epochs * n_segments) == n_steps
