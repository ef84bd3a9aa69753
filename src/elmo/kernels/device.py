"""Devices by name."""

import torch
from torch import nn

from elmo.errors import ConfigError


def move(module: nn.Module, device: str | torch.device) -> None:
    """Move a module; a device that is not there is a `ConfigError`."""
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device is {str(device)!r}, which cannot be used: {reason}") from None
