"""PyTorch pickles as state dicts, opened with `weights_only=True` and in no other way."""

import pickle
import re
from collections.abc import Mapping
from typing import BinaryIO

import torch
from torch import Tensor

from elmo.errors import FormatError
from elmo.formats.container import one_line
from elmo.formats.weight_names import Array


def read_state_dict(file: BinaryIO, label: str) -> dict[str, Tensor]:
    """Read a pickled state dict onto the CPU.

    Args:
        file: open for reading.
        label: what to call it in a message.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # PyTorch's own text advises to open the file unsafely, so it is not passed on.
        asked = re.search(r"GLOBAL (\S+)", str(error))
        raise FormatError(
            f"{label} is damaged, or no plain state dict of tensors; other pickles are not "
            f"opened, since they can run code{f' (this one asks for {asked[1]})' if asked else ''}"
        ) from None
    # Garbage makes the unpickler fail in many ways, none of which tells more than that.
    except Exception as error:
        raise FormatError(f"{label} is not a whole PyTorch file: {one_line(error)}") from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise FormatError(f"{label} holds no state dict (names with tensors)")
    return content


def to_arrays(tensors: Mapping[str, Tensor], label: str) -> dict[str, Array]:
    """Give tensors of a state dict as arrays; only plain floating-point ones can be.

    Args:
        tensors: by name.
        label: the file, for messages.
    """
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or not tensor.is_floating_point():
            kind = "no values" if tensor.is_meta else f"{tensor.dtype}, {tensor.layout}"
            raise FormatError(
                f"{label}: {name} holds {kind}; expected plain floating-point numbers"
            )
    return {name: tensor.detach().float().numpy() for name, tensor in tensors.items()}
