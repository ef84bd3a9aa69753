"""Tests that config dataclasses reject invalid and conflicting values."""

import pytest

from elmo.config import (
    CorpusConfig,
    EncoderConfig,
    InputConfig,
    LossConfig,
    LSTMConfig,
    MixConfig,
    ModelConfig,
    OptimizerConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TextConfig,
    TuneConfig,
)
from elmo.errors import ConfigError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextConfig(max_characters=2), "at least 3"),
        (lambda: EncoderConfig(n_characters=0), "has no input"),
        (lambda: EncoderConfig(filters=()), "at least one filter"),
        (lambda: EncoderConfig(filters=((0, 3),)), "positive"),
        (
            lambda: EncoderConfig(n_characters=0, filters=(), n_words=3, word_role="cache"),
            "requires character input",
        ),
        (lambda: LSTMConfig(cell_dim=0), "cell_dim must be at least 1"),
        (lambda: LSTMConfig(cell_clip=-1.0), "cell_clip must be positive"),
        (lambda: LSTMConfig(cell_clip=float("nan")), "cell_clip must be positive"),
        (lambda: LSTMConfig(forget_bias=float("inf")), "forget_bias must be a finite number"),
        (lambda: LSTMConfig(n_layers=65), "n_layers must be at most 64"),
        (lambda: EncoderConfig(n_highway=-1), "n_highway must be from 0 to 64"),
        (lambda: MixConfig(n_mixes=-1), "n_mixes must be 0 or more"),
        (lambda: ModelConfig(TextConfig(characters="none")), "contradict each other"),
        (lambda: ModelConfig(TextConfig(max_characters=5)), "A filter of width 7"),
        (lambda: ModelConfig(encoder=EncoderConfig(project=False)), "no projection between"),
        (
            lambda: ModelConfig(encoder=EncoderConfig(n_words=3, word_dim=4, word_role="cache")),
            "4 dimensions, but the LSTM expects 512",
        ),
        (lambda: InputConfig(max_characters=0), r"max_characters must be .*got 0"),
        (lambda: InputConfig(character_dim=0), "character_dim must be"),
        (lambda: InputConfig(characters="none"), "no input"),
        (lambda: LossConfig(n_samples=0), r"n_samples must be .*got 0"),
        (lambda: OptimizerConfig(learning_rate=0.0), r"learning_rate must be .*got 0"),
        (lambda: OptimizerConfig(learning_rate=1e38), "at most 1e6"),
        (lambda: OptimizerConfig(loss_scale=float("nan")), r"loss_scale must be .*got nan"),
        (lambda: OptimizerConfig(clip_norm=-1.0), r"clip_norm must be .*got -1"),
        (lambda: OptimizerConfig(warmup_steps=-5), r"warmup_steps must be .*got -5"),
        (lambda: OptimizerConfig(weight_decay=-1.0), r"weight_decay must be .*got -1"),
        (lambda: OptimizerConfig(weight_decay=0.1), "only supported with optimizer: adamw or muon"),
        (
            lambda: OptimizerConfig(optimizer="sgd"),
            "Unknown optimizer 'sgd'. Expected one of: adagrad, adamw, muon",
        ),
        (lambda: OptimizerConfig(optimizer="muon", weight_decay=-0.1), r"weight_decay must be"),
        (lambda: OptimizerConfig(beta1=2.0), r"beta1 must be .*got 2"),
        (lambda: RegularizationConfig(dropout=1.0), r"dropout must be .*got 1"),
        (lambda: RunConfig(seed=-1), r"seed must be .*got -1"),
        (lambda: RunConfig(epochs=0.0), r"epochs must be .*got 0"),
        (lambda: RunConfig(patience=0), r"patience must be .*got 0"),
        (
            lambda: RunConfig(kernel="cuda"),
            "Unknown kernel 'cuda'. Expected one of: auto, fused, cudnn, reference",
        ),
        (lambda: StreamConfig(reset=2.0), r"reset must be .*got 2"),
        (lambda: StreamConfig(unroll=0), r"unroll must be .*got 0"),
        (lambda: StreamConfig(order="text", directions="independent"), "requires order: shuffled"),
        (lambda: TuneConfig(new_words=-3), "new_words must be 0 or more"),
        (lambda: TuneConfig(softmax_steps=-3), "softmax_steps must be 0 or more"),
        (lambda: CorpusConfig(held_out=1.0), r"held_out must be .*got 1"),
        (lambda: CorpusConfig(workers=0), r"workers must be .*got 0"),
    ],
)
def test_config_rejects_invalid_value(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
