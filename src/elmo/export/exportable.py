"""Interface of models that can be exported, and the number of columns of their input."""

from typing import Protocol

from elmo.config import ModelConfig
from elmo.model.network import ELMoNetwork


class HasNetwork(Protocol):
    """Interface of `elmo.ELMo`, which belongs to a higher layer and cannot be imported here."""

    network: ELMoNetwork


def n_character_columns(config: ModelConfig) -> int:
    """Return the number of character ids per token."""
    return config.text.max_characters if config.encoder.n_characters else 0


def n_columns(config: ModelConfig) -> int:
    """Return the number of ids per token: character ids, plus one word id if the model uses it."""
    return n_character_columns(config) + bool(config.encoder.n_words)
