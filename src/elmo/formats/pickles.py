"""Reader for state dicts in PyTorch pickles, always loaded with `weights_only=True`."""

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
    """Read a pickled state dict onto the CPU."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # PyTorch's message suggests loading the file unsafely, so it is not passed on.
        requested = re.search(r"GLOBAL (\S+)", str(error))
        raise FormatError(
            f"{label} is damaged or not a plain state dict of tensors. Other pickles are not "
            "loaded because they can execute code"
            f"{f' (this one references {requested[1]})' if requested else ''}."
        ) from None
    # Damaged files make the unpickler raise many exception types.
    except Exception as error:
        raise FormatError(f"{label} is not a complete PyTorch file: {one_line(error)}") from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise FormatError(f"{label} does not contain a state dict (names mapped to tensors).")
    return content


def to_arrays(tensors: Mapping[str, Tensor], label: str) -> dict[str, Array]:
    """Convert the dense floating-point tensors of a state dict to float32 arrays."""
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or not tensor.is_floating_point():
            problem = "no values" if tensor.is_meta else f"dtype {tensor.dtype}, {tensor.layout}"
            raise FormatError(
                f"{label}: {name} has {problem}, expected dense floating-point values."
            )
    return {name: tensor.detach().float().numpy() for name, tensor in tensors.items()}
