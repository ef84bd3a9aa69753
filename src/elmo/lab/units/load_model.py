"""Loads any model whose units can be read."""

from pathlib import Path

import torch

from elmo.config.look_inside import NetworkName
from elmo.errors import ConfigError
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.lab.recurrent_folder import RecurrentModel, is_model_folder, read_model
from elmo.tasks.fitted.fitted_task import TUNED, is_task_folder, model_folder, read_record
from elmo.tasks.fitted.load_fitted import Fitted, load_fitted_task
from elmo.tasks.fitted.trained_model import TrainedModel

# A task model stands for its encoder.
Loaded = RecurrentModel | Pretrained | TrainedModel


def load_model(source: str, device: str | torch.device, network: NetworkName = "elmo") -> Loaded:
    """Load a language model, an ELMo, or a network of a task model.

    Args:
        source: Folder of `elmo lm train` or of a task model; or a name, folder, file or hub id of
            an ELMo model.
        device: Device of a language model and of a task model.
        network: Which network of a task model: its ELMo, or its encoder.

    Raises:
        FormatError: There is no such model, or it is damaged.
        ConfigError: The model does not have the network.
    """
    folder = Path(source)
    if not is_task_folder(folder):
        if network == "encoder":
            raise ConfigError(f"{source} is not a task model, so it has no task encoder.")
        return read_model(folder, device) if is_model_folder(folder) else read(source)
    if network == "encoder":
        return with_encoder(load_fitted_task(folder, str(device)), source)
    path = model_folder(folder)
    options = read_record(path).config.elmo
    if options.model is None:
        raise ConfigError(_no_elmo(source))
    return read(str(path / TUNED) if options.use == "tuned" else options.model)


def with_encoder(model: Fitted, name: str) -> TrainedModel:
    """Return a task model if it has a recurrent encoder.

    Args:
        model: The task model.
        name: Name of the model for error messages.
    """
    if not isinstance(model, TrainedModel):
        raise ConfigError(
            f"There is no encoder in {name}, which looks up vectors of its ELMo. Read its ELMo "
            "instead (network: elmo)."
        )
    if model.built.model.encoder.lstm is None:
        raise ConfigError(f"The encoder of {name} has no LSTM (its option hidden is 0).")
    return model


def elmo_of_task(model: Fitted, name: str) -> Pretrained:
    """Return the ELMo of a task model in memory.

    Args:
        model: The task model.
        name: Name of the model for error messages.
    """
    if model.elmo is None:
        raise ConfigError(_no_elmo(name))
    return model.elmo.to_pretrained()


def _no_elmo(name: str) -> str:
    return f"There is no ELMo in {name}. Read its encoder instead (network: encoder)."
