"""The interface of models that can be exported, and the width of their token rows."""

from typing import Protocol

from elmo.config import ModelConfig
from elmo.model.network import ELMoNetwork


class HasNetwork(Protocol):
    """Interface of `elmo.ELMo`, which is in a higher layer and cannot be imported here."""

    network: ELMoNetwork


def n_character_columns(config: ModelConfig) -> int:
    """Return the number of character columns of a token row."""
    return config.text.max_characters if config.encoder.n_characters else 0


def n_columns(config: ModelConfig) -> int:
    """Return the number of columns of a token row: characters, and a word id if used."""
    return n_character_columns(config) + bool(config.encoder.n_words)
