"""`read_traces`: the values of the units of any model of this package over a text."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

import torch

from elmo.config.bounds import require_type
from elmo.config.language_models import SymbolConfig
from elmo.config.look_inside import NetworkName
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import default_device
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.symbol_text import read_text_files
from elmo.lab.units.elmo_traces import ElmoUnits
from elmo.lab.units.encoder_traces import encoder_traces
from elmo.lab.units.load_model import Loaded, elmo_of_task, load_model, with_encoder
from elmo.lab.units.symbol_traces import symbol_traces
from elmo.lab.units.traces import Kind, Sentences, UnitTraces, check_kinds
from elmo.tasks.fitted.load_fitted import Fitted
from elmo.tasks.fitted.trained_model import TrainedModel

MAX_POSITIONS = 10_000
N_GUESSES = 5


@runtime_checkable
class TaskEstimator(Protocol):
    """An estimator such as `Classifier`, after `fit` or `load`."""

    @property
    def fitted(self) -> Fitted:
        """The task model."""


Model = (
    str
    | os.PathLike[str]
    | LanguageModel
    | RecurrentModel
    | ELMo
    | Pretrained
    | TaskEstimator
    | TrainedModel
)
Text = str | os.PathLike[str] | Sentences


def read_traces(
    model: Model,
    text: Text,
    *,
    network: NetworkName = "elmo",
    kinds: Collection[Kind] | None = None,
    max_positions: int = MAX_POSITIONS,
    n_guesses: int = N_GUESSES,
    device: str | torch.device | None = None,
) -> UnitTraces:
    """Read a text with a model and return the values of its units.

    Args:
        model: Folder of `elmo lm train` or `elmo task fit`; a name, folder or hub id of an ELMo
            model; or a model in memory.
        text: The text as a string, a `Path` of a text file, or a list of sentences, which are lists
            of words, for models that read words.
        network: Network of a task model: "elmo", or "encoder", its BiLSTM.
        kinds: Kinds of values. Default: all that the model has. Hidden states alone are faster.
        max_positions: Maximum number of characters, bytes or words. Of a longer text evenly spaced
            parts are read, which `note` and `sample` state.
        n_guesses: Number of most likely pieces at each position. 0: neither guesses nor surprisal.
        device: Device of the computation. Default: cuda if available. A model in memory stays on
            its device.

    Raises:
        ConfigError: An option is invalid, or the model has no values of these kinds.
        FormatError: The model cannot be read.
        InputError: The text is empty or cannot be read.
    """
    chosen = check_kinds(kinds)
    for name, value, least in (("max_positions", max_positions, 1), ("n_guesses", n_guesses, 0)):
        require_type(name, value, "an integer")
        if value < least:
            raise ConfigError(f"{name} must be at least {least} (got {value}).")
    loaded = model_of(model, device, network)
    content = text_of(text, loaded)
    if isinstance(loaded, RecurrentModel):
        traces = symbol_traces(
            loaded, content, kinds=chosen, max_positions=max_positions, n_guesses=n_guesses
        )
    elif isinstance(loaded, TrainedModel):
        traces = encoder_traces(loaded, content, kinds=chosen, max_positions=max_positions)
    else:
        units = ElmoUnits.load(loaded, device or default_device())
        traces = units.traces(
            content, kinds=chosen, max_positions=max_positions, n_guesses=n_guesses
        )
    if not traces.values:
        raise ConfigError(f"The model has no values of these kinds: {', '.join(chosen)}.")
    return traces


def model_of(
    model: Model, device: str | torch.device | None = None, network: NetworkName = "elmo"
) -> Loaded:
    """Return a model in memory, or load it."""
    if network not in get_args(NetworkName):
        raise ConfigError(f"network must be elmo or encoder (got {network!r}).")
    if isinstance(model, TrainedModel):
        return with_encoder(model, "the task model")
    if isinstance(model, TaskEstimator):
        fitted, name = model.fitted, f"the {type(model).__name__}"
        return with_encoder(fitted, name) if network == "encoder" else elmo_of_task(fitted, name)
    if network == "encoder" and not isinstance(model, str | os.PathLike):
        raise ConfigError(f"network encoder needs a task model (got a {type(model).__name__}).")
    if isinstance(model, LanguageModel):
        return RecurrentModel(model.network, model.symbols, model.training)
    if isinstance(model, ELMo):
        return model.to_pretrained()
    if isinstance(model, RecurrentModel | Pretrained):
        return model
    require_type("model", model, "a path")
    return load_model(os.fspath(model), device or default_device(), network)


def text_of(text: Text, model: Loaded) -> str | Sentences:
    """Return the content of a text, as a model reads it."""
    if isinstance(text, str):
        return text
    if isinstance(text, os.PathLike):
        options = SymbolConfig()
        if isinstance(model, RecurrentModel):
            config = model.network.config
            options = SymbolConfig(
                unit=config.unit, tokenizer=config.tokenizer, strip_lines=config.strip_lines
            )
        return read_text_files([os.fspath(Path(text))], options)
    is_sentences = isinstance(text, Sequence) and not any(isinstance(line, str) for line in text)
    if not is_sentences:
        raise ConfigError(
            "text must be a string, a Path, or a list of lists of words (got "
            f"{type(text).__name__})."
        )
    return text
