"""Configs: contradictions are refused."""

import pytest

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
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
    ],
)
def test_contradictions(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
