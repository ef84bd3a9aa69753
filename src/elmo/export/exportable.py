"""What is exported: a model with a network, and how wide the rows are that it takes."""

from typing import Protocol

from elmo.config import ModelConfig
from elmo.model.network import ELMoNetwork


class HasNetwork(Protocol):
    """An `elmo.ELMo`, which stands above this room."""

    network: ELMoNetwork


def n_character_columns(config: ModelConfig) -> int:
    """Count the columns of a token row that spell it."""
    return config.text.max_characters if config.encoder.n_characters else 0


def n_columns(config: ModelConfig) -> int:
    """Count the columns of a token row: its characters, and a word id where there are words."""
    return n_character_columns(config) + bool(config.encoder.n_words)
