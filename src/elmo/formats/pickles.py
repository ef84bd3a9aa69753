"""PyTorch pickles as state dicts, opened with `weights_only=True` and in no other way."""

import pickle
from typing import BinaryIO

import torch
from torch import Tensor

from elmo.errors import FormatError


def read_state_dict(file: BinaryIO, label: str) -> dict[str, Tensor]:
    """Read a pickled state dict onto the CPU.

    Args:
        file: open for reading.
        label: what to call it in a message.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        first = str(error).strip().splitlines()[0]
        raise FormatError(
            f"{label} is damaged, or no plain state dict of tensors; other pickles are not "
            f"opened, since they can run code: {first}"
        ) from None
    # Garbage makes the unpickler fail in many ways, none of which tells more than that.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FormatError(f"{label} is not a whole PyTorch file: {reason}") from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise FormatError(f"{label} holds no state dict (names with tensors)")
    return content
