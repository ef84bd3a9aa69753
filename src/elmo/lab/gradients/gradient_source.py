"""Finds the models of a gradient comparison: trained models, or the network of a config."""

import os
from dataclasses import dataclass
from pathlib import Path

from elmo.config.bounds import require_type
from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import RecurrentModelConfig, SymbolConfig
from elmo.config.serialization import load_config, presets
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.formats.load import read
from elmo.formats.model_packages import is_model_name
from elmo.formats.pretrained import Pretrained
from elmo.lab.gradients.elmo_source import ElmoSource
from elmo.lab.recurrent_folder import is_model_folder, read_model
from elmo.lab.recurrent_model import PRESETS, LanguageModel
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbol_text import SymbolText, text_part
from elmo.lab.symbols import Symbols
from elmo.lab.train_lm import model_config
from elmo.tasks.fitted.fitted_task import is_task_folder

ModelSource = str | os.PathLike[str] | LanguageModel | ELMo | Pretrained
CONFIG_SUFFIXES = (".yaml", ".yml")


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


def read_source(source: ModelSource) -> TrainedSource | ElmoSource | ConfigSource:
    """Return a language model, an ELMo, or a config file or preset of `elmo lm train`."""
    if not isinstance(source, str | os.PathLike):
        return read_trained(source)
    known = presets(PRESETS)
    path = Path(source)
    if os.fspath(source) not in known and not (path.is_file() and path.suffix in CONFIG_SUFFIXES):
        return read_trained(source)
    # A config file need not name the text of a training run.
    unused = {"text": ("text",), "out": "out"}
    return ConfigSource(load_config(LMTrainConfig, os.fspath(source), unused, known))


def read_trained(source: ModelSource) -> TrainedSource | ElmoSource:
    """Return a trained language model or an ELMo."""
    if isinstance(source, LanguageModel):
        return TrainedSource("", source.network, source.symbols)
    if isinstance(source, ELMo | Pretrained):
        return ElmoSource(source if isinstance(source, Pretrained) else source.to_pretrained())
    require_type("model", source, "a path")
    path = Path(source)
    if is_task_folder(path):
        raise ConfigError(
            f"{path} is a task model. Gradients of language models and ELMo models are measured: "
            "name a folder of elmo lm train, or an ELMo model with a softmax."
        )
    if is_model_folder(path):
        model = read_model(path)
        return TrainedSource(path.resolve().name, model.network, model.symbols)
    name = os.fspath(source)
    if not path.exists() and "/" not in name and not is_model_name(name):
        raise ConfigError(
            f"There is no model, config file or preset {name!r}. Presets: "
            f"{', '.join(presets(PRESETS))}."
        )
    return ElmoSource(read(name), path.name)
