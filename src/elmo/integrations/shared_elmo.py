"""ELMo models that all integrations of a process share.

Objects of the integrations keep the name of a model and look the model up when they use it. Copies,
clones and pickles therefore contain no weights, and a model is loaded once per process.
"""

import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from elmo.errors import ConfigError, shortened
from elmo.formats.model_packages import installed_folder

if TYPE_CHECKING:
    from elmo.embed.embedder import ELMo

# Number of models that are kept; the least recently used one is dropped.
MAX_MODELS = 4

# Name, size and time of the files of a model.
FileVersions = tuple[tuple[str, int, int], ...]

_Key = tuple[str, str, FileVersions]
_models: OrderedDict[_Key, "ELMo"] = OrderedDict()
_lock = Lock()


def shared_elmo(model: str | Path, device: str | None = None) -> "ELMo":
    """Return the model of this process with a name, which is loaded on first use.

    The caller must not change the model. A model folder whose files have changed is loaded again.

    Args:
        model: Name of a bundled or downloaded model, path, or hub id.
        device: Device of the model. Default: a GPU if available.

    Raises:
        ConfigError: `model` is not a name or path, or the device is not available.
        FormatError: The model cannot be loaded.
    """
    # PyTorch is only imported when a model is needed: spaCy imports its components at every start.
    from elmo.embed.embedder import ELMo
    from elmo.kernels.device import available_device, default_device, move

    check_model_name(model)
    limit_threads()
    chosen = available_device(device or default_device())
    key = (str(model), str(chosen), file_versions(model))
    with _lock:
        if key not in _models:
            elmo = ELMo.from_pretrained(model)
            move(elmo, chosen)
            _models[key] = elmo
        _models.move_to_end(key)
        while len(_models) > MAX_MODELS:
            _models.popitem(last=False)
        return _models[key]


def check_model_name(model: object) -> None:
    """Raise `ConfigError` if a value is not the name or path of a model."""
    if not isinstance(model, str | Path):
        raise ConfigError(
            "model must be the name of a model, a path or a hub id (got "
            f"{shortened(repr(model), 60)})."
        )


def file_versions(model: str | Path) -> FileVersions:
    """Return what changes if a model is replaced, without loading it; empty for a hub id."""
    path = Path(model)
    path = path if path.exists() else installed_folder(str(model)) or path
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        states = [(file.name, file.stat()) for file in files if file.is_file()]
    except OSError:  # loading the model reports the error
        return ()
    return tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)


class _Process:
    """Whether this process was forked and has not used a model yet."""

    is_new_fork = False


def _after_fork() -> None:
    """Prepare a forked process for the use of models."""
    global _lock
    _lock = Lock()  # another thread may have held it during the fork
    _Process.is_new_fork = True


def limit_threads() -> None:
    """Use one thread in a forked process.

    OpenMP blocks forever in a process that was forked after its threads had been started. Forked
    processes are workers that share the cores.
    """
    if _Process.is_new_fork:
        import torch

        torch.set_num_threads(1)
        _Process.is_new_fork = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
