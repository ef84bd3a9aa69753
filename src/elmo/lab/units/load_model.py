"""Loads any model whose units can be read."""

import json
from pathlib import Path

import torch

from elmo.errors import ConfigError
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.lab.recurrent_folder import RecurrentModel, is_model_folder, model_path, read_model

# Format of the folder of a task model, and the folder in it with a fine-tuned ELMo.
TASK_FORMAT, TUNED = "elmo-torch-task", "elmo"


def load_model(source: str, device: str | torch.device) -> RecurrentModel | Pretrained:
    """Load a language model, an ELMo, or the ELMo of a task model.

    Args:
        source: Folder of `elmo lm train` or of a task model; or a name, folder, file or hub id of
            an ELMo model.
        device: Device of a language model.

    Raises:
        FormatError: There is no such model, or it is damaged.
        ConfigError: The task model has no ELMo.
    """
    folder = Path(source)
    if is_model_folder(folder):
        return read_model(folder, device)
    return read(_elmo_of_task(folder) or source)


def _elmo_of_task(folder: Path) -> str | None:
    """Return the ELMo of a task model; None if the folder is not that of a task model."""
    path = model_path(folder)
    try:
        record = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("format") != TASK_FORMAT:
        return None
    if (path / TUNED).is_dir():
        return str(path / TUNED)
    config = record.get("config")
    options = config.get("elmo") if isinstance(config, dict) else None
    name = options.get("model") if isinstance(options, dict) else None
    if not isinstance(name, str):
        raise ConfigError(f"The task model {folder} has no ELMo model whose units could be read.")
    return name
