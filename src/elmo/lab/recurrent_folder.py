"""Reader and writer of the model folders of recurrent language models."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.config.language_models import RecurrentModelConfig, Unit
from elmo.config.serialization import from_dict, to_dict
from elmo.errors import ConfigError, FormatError, shortened
from elmo.files import write_folder
from elmo.formats import model_folder
from elmo.formats.load import is_training_folder
from elmo.formats.model_packages import is_model_name
from elmo.kernels.device import move
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbols import Symbols
from elmo.text.characters import END_TOKEN
from elmo.text.vocabulary import UNKNOWN

FORMAT = "elmo-torch language model"
VERSION = 1
CONFIG, WEIGHTS, SYMBOLS = "config.json", "model.safetensors", "symbols.json"
# Comparison of the model's loss with others, written at the end of training.
COMPARISON = "loss_comparison.json"
# Subfolder of a training folder that contains the model.
MODEL = "model"
_ELMO_MESSAGE = (
    "{} is an ELMo model, not a model of elmo lm train. Use elmo evaluate or elmo info for it; "
    "elmo lm sample supports both."
)


@dataclass(frozen=True)
class RecurrentModel:
    """A recurrent language model as stored in a folder.

    Attributes:
        network: The network.
        symbols: Its symbols.
        training: Facts about the training run, by name.
    """

    network: RecurrentNetwork
    symbols: Symbols
    training: dict[str, object]


def write_model(model: RecurrentModel, folder: Path) -> None:
    """Write a model folder, replacing an existing one."""
    config = model.network.config
    header = {
        "format": FORMAT,
        "version": VERSION,
        "model": to_dict(config),
        "training": model.training,
    }
    weights = {
        name: value.detach().cpu().contiguous().clone()
        for name, value in model.network.state_dict().items()
    }
    write_folder(
        folder,
        {
            WEIGHTS: partial(save_file, weights),
            SYMBOLS: partial(_write_json, list(model.symbols.names)),
            CONFIG: partial(_write_json, header),
            COMPARISON: None,  # it would describe the model before this one
        },
    )


def _write_json(content: object, path: Path) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_model_folder(folder: Path) -> bool:
    """Whether a folder, or the model in a training folder, is a recurrent language model."""
    try:
        header = _read_json(model_path(folder) / CONFIG)
    except FormatError:
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def read_model(folder: str | Path, device: str | torch.device = "cpu") -> RecurrentModel:
    """Read a model folder or the model of a training folder.

    Args:
        folder: The folder.
        device: Device of the network, which can be another one than that of the training.

    Raises:
        FormatError: The folder does not exist, contains no such model, or is damaged.
        ConfigError: The device is not available.
    """
    path = model_path(Path(folder))
    if not path.is_dir():
        if is_model_name(str(folder)):
            raise FormatError(_ELMO_MESSAGE.format(folder))
        raise FormatError(f"There is no folder {path}.")
    header = _read_header(path)
    try:
        config = from_dict(RecurrentModelConfig, header.get("model"), f"{path / CONFIG}: model")
    except ConfigError as error:
        raise FormatError(str(error)) from None
    symbols = _read_symbols(path, config)
    try:
        network = RecurrentNetwork(config=config)
    except (ValueError, RuntimeError, MemoryError) as error:
        reason = shortened(" ".join(str(error).split()), 300)
        raise FormatError(
            f"{path / CONFIG} does not describe a network that can be created: {reason}"
        ) from None
    _load_weights(network, path / WEIGHTS)
    move(network.eval().requires_grad_(False), device)
    training = header.get("training")
    return RecurrentModel(network, symbols, training if isinstance(training, dict) else {})


def _read_header(path: Path) -> dict[str, object]:
    """Read the config file of a model folder, and check format and version."""
    if is_training_folder(path):
        raise FormatError(
            f"{path} is the folder of a training run that has not written a model yet. A model is "
            "written at the first evaluation and at the end."
        )
    header = _read_json(path / CONFIG) if (path / CONFIG).exists() else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        if isinstance(header, dict) and header.get("format") == model_folder.FORMAT:
            raise FormatError(_ELMO_MESSAGE.format(path))
        raise FormatError(
            f"{path} does not contain a recurrent language model. Train one with elmo lm train."
        )
    if header.get("version") != VERSION:
        raise FormatError(
            f"{path}: format version {header.get('version')!r} is not supported; this version of "
            f"elmo-torch reads version {VERSION}. Install a newer elmo-torch."
        )
    return header


def _read_symbols(path: Path, config: RecurrentModelConfig) -> Symbols:
    names = _read_json(path / SYMBOLS)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{path / SYMBOLS} is damaged: expected a list of strings.")
    symbols = Symbols(config.unit, tuple(names), config.tokenizer)
    if len(symbols) != config.n_symbols:
        raise FormatError(
            f"{path / SYMBOLS} has {len(symbols):,} symbols, but {CONFIG} says "
            f"{config.n_symbols:,}."
        )
    if not _are_symbols(names, config.unit):
        raise FormatError(
            f"{path / SYMBOLS} is damaged or belongs to another model: it does not contain the "
            f"symbols of a model over {config.unit}."
        )
    return symbols


def _are_symbols(names: list[str], unit: Unit) -> bool:
    """Whether names can be the symbols of a text; bytes have no names."""
    first = {"characters": [UNKNOWN], "words": [UNKNOWN, END_TOKEN], "bytes": []}[unit]
    others = names[len(first) :]
    if names[: len(first)] != first or len(set(names)) < len(names):
        return False
    if unit == "characters":
        return all(len(name) == 1 for name in others)
    return all(others) if unit == "words" else not others


def _load_weights(network: RecurrentNetwork, path: Path) -> None:
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"{path} is missing, incomplete or damaged: {reason}") from None
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        # The first line names only the class of the network.
        reason = shortened(" ".join(" ".join(str(error).splitlines()[1:]).split()), 300)
        raise FormatError(
            f"{path} has weights of another network than {CONFIG}: {reason}"
        ) from None


def model_path(folder: Path) -> Path:
    """Return the model folder in a training folder, or the folder itself."""
    return folder / MODEL if (folder / MODEL / CONFIG).exists() else folder


def _read_json(path: Path) -> object:
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise FormatError(f"{path} is not valid JSON: {error}") from None
    return content
