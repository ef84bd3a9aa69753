"""Configs: contradictions are refused."""

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
        (lambda: EncoderConfig(n_characters=0), "neither characters nor words"),
        (lambda: EncoderConfig(filters=()), "at least one filter"),
        (lambda: EncoderConfig(filters=((0, 3),)), "positive"),
        (
            lambda: EncoderConfig(n_characters=0, filters=(), n_words=3, word_role="cache"),
            "cache needs the characters",
        ),
        (lambda: LSTMConfig(cell_dim=0), "cell_dim must be at least 1"),
        (lambda: LSTMConfig(cell_clip=-1.0), "cell_clip must be positive"),
        (lambda: LSTMConfig(cell_clip=float("nan")), "cell_clip must be positive"),
        (lambda: LSTMConfig(forget_bias=float("inf")), "forget_bias must be a number"),
        (lambda: LSTMConfig(n_layers=65), "n_layers must be at most 64"),
        (lambda: EncoderConfig(n_highway=-1), "n_highway must be from 0 to 64"),
        (lambda: MixConfig(n_mixes=-1), "representations"),
        (lambda: ModelConfig(TextConfig(characters="none")), "disagree"),
        (lambda: ModelConfig(TextConfig(max_characters=5)), "a filter is 7 wide"),
        (lambda: ModelConfig(encoder=EncoderConfig(project=False)), "no projection between"),
        (
            lambda: ModelConfig(encoder=EncoderConfig(n_words=3, word_dim=4, word_role="cache")),
            "4 wide, the LSTM takes 512",
        ),
        (lambda: InputConfig(max_characters=0), "max_characters is 0"),
        (lambda: InputConfig(character_dim=0), "character_dim must be"),
        (lambda: InputConfig(characters="none"), "no input"),
        (lambda: LossConfig(n_samples=0), "n_samples is 0"),
        (lambda: OptimizerConfig(learning_rate=0.0), "learning_rate is 0"),
        (lambda: OptimizerConfig(learning_rate=1e38), "1e6 at most"),
        (lambda: OptimizerConfig(loss_scale=float("nan")), "loss_scale is nan"),
        (lambda: OptimizerConfig(clip_norm=-1.0), "clip_norm is -1"),
        (lambda: OptimizerConfig(warmup_steps=-5), "warmup_steps is -5"),
        (lambda: OptimizerConfig(weight_decay=-1.0), "weight_decay is -1"),
        (lambda: OptimizerConfig(weight_decay=0.1), "adagrad has none"),
        (lambda: OptimizerConfig(beta1=2.0), "beta1 is 2"),
        (lambda: OptimizerConfig(final_rate=float("nan")), "final_rate is nan"),
        (lambda: RegularizationConfig(dropout=1.0), "dropout is 1"),
        (lambda: RunConfig(seed=-1), "seed is -1"),
        (lambda: RunConfig(epochs=0.0), "epochs is 0"),
        (lambda: RunConfig(patience=0), "patience is 0"),
        (
            lambda: RunConfig(kernel="cuda"),
            "kernel is 'cuda'; expected one of auto, fused, cudnn, reference",
        ),
        (lambda: StreamConfig(reset=2.0), "reset is 2"),
        (lambda: StreamConfig(unroll=0), "unroll is 0"),
        (lambda: StreamConfig(order="text", directions="independent"), "shuffled order only"),
        (lambda: TuneConfig(new_words=-3), "0 or more"),
        (lambda: CorpusConfig(held_out=1.0), "held_out is 1"),
        (lambda: CorpusConfig(workers=0), "workers is 0"),
    ],
)
def test_contradictions(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
