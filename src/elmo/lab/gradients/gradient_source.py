"""Finds the networks of a gradient comparison: trained models, or the network of a config."""

import os
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_models import LMTrainConfig, RecurrentModelConfig, SymbolConfig
from elmo.config.serialization import load_config, presets
from elmo.errors import ConfigError
from elmo.lab.recurrent_folder import read_model
from elmo.lab.recurrent_model import PRESETS, LanguageModel
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbol_text import SymbolText, text_part
from elmo.lab.symbols import Symbols
from elmo.lab.train_lm import model_config

ModelSource = str | os.PathLike[str] | LanguageModel


@dataclass(frozen=True)
class TrainedSource:
    """A trained language model.

    Attributes:
        name: Name of its folder; empty if it was not read from one.
        network: The network.
        symbols: Its symbols.
    """

    name: str
    network: RecurrentNetwork
    symbols: Symbols

    @property
    def symbol_config(self) -> SymbolConfig:
        """How the model divides a text into symbols."""
        config = self.network.config
        return SymbolConfig(
            unit=config.unit, tokenizer=config.tokenizer, strip_lines=config.strip_lines
        )


@dataclass(frozen=True)
class ConfigSource:
    """A config of `elmo lm train`, whose network is not trained."""

    config: LMTrainConfig

    @property
    def symbol_config(self) -> SymbolConfig:
        """How a text is divided into symbols."""
        return self.config.symbols

    def model(self, text: str) -> tuple[RecurrentModelConfig, Symbols]:
        """Return config and symbols of the model for a text."""
        symbols = Symbols.of_text([text], self.config.symbols)
        part = text_part(text, symbols)
        symbol_text = SymbolText(symbols, {"train": part}, part.fingerprint)
        return model_config(self.config, symbol_text), symbols


def read_source(source: ModelSource) -> TrainedSource | ConfigSource:
    """Return a model of `elmo lm train`, or a config file or preset of this command."""
    if isinstance(source, LanguageModel):
        return TrainedSource("", source.network, source.symbols)
    if Path(source).is_dir():
        return read_trained(source)
    known = presets(PRESETS)
    if not Path(source).is_file() and os.fspath(source) not in known:
        raise ConfigError(
            f"There is no model folder, config file or preset {os.fspath(source)!r}. Presets: "
            f"{', '.join(known)}."
        )
    # A config file need not name the text of a training run.
    unused = {"text": ("text",), "out": "out"}
    return ConfigSource(load_config(LMTrainConfig, os.fspath(source), unused, known))


def read_trained(source: ModelSource) -> TrainedSource:
    """Return a trained model."""
    if isinstance(source, LanguageModel):
        return TrainedSource("", source.network, source.symbols)
    model = read_model(Path(source))
    return TrainedSource(Path(source).resolve().name, model.network, model.symbols)
