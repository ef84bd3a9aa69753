"""Weights in fewer bytes: float16, or int8 with one float16 scale for each row of a matrix.

A row is what one unit reads, so that a single large weight coarsens its own row alone. Nothing
above `formats` knows of it: what is read is float32 again.
"""

from collections.abc import Mapping
from typing import get_args

import torch
from torch import Tensor

from elmo.config import Storage
from elmo.errors import ConfigError, FormatError

SCALE = ".scale"
_LARGEST = 127  # -128 is left out, so that a weight and its negative lose the same


def pack(weights: Mapping[str, Tensor], dtype: Storage) -> dict[str, Tensor]:
    """Give tensors as they are stored, `NAME` and for int8 `NAME.scale` beside it.

    A tensor with values too large for float16, or for a scale in float16, stays float32: fixed
    mixes are written with weights such as -9e10 to leave a layer out.

    Args:
        weights: finite tensors by name.
        dtype: float32, float16 or int8, which is for matrices: what has one dimension is float16.
    """
    if dtype not in get_args(Storage):
        raise ConfigError(f"dtype is {dtype!r}; expected {', '.join(get_args(Storage))}")
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        values = tensor.float().contiguous()
        if dtype == "int8" and values.dim() > 1:
            scale = _scale_of(values)
            if scale.isfinite().all():
                stored[name] = _rounded(values, scale)
                stored[name + SCALE] = scale
                continue
        elif dtype != "float32":
            half = values.half()
            if half.isfinite().all():
                values = half
        stored[name] = values
    return stored


def unpack(stored: Mapping[str, Tensor], label: str) -> dict[str, Tensor]:
    """Give stored tensors as float32, each matrix of int8 multiplied by the scales of its rows.

    Args:
        stored: tensors by name, as `pack` gives them.
        label: the file, for messages.
    """
    matrices = {name for name, tensor in stored.items() if tensor.dtype == torch.int8}
    scales = {name + SCALE for name in matrices}
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name in scales:
            continue
        if name.endswith(SCALE):
            raise FormatError(
                f"{label}: {name} has no int8 matrix {name.removesuffix(SCALE)} to scale: the file "
                "is not whole; take another copy"
            )
        values = tensor.float()
        if name in matrices:
            scale = _checked_scale(stored, name, label)
            values *= _by_row(scale.float(), tensor)
        weights[name] = values
    return weights


def storage_of(stored: Mapping[str, Tensor]) -> str:
    """Say how tensors are stored: the narrowest type among them, and their size."""
    dtypes = {tensor.dtype for tensor in stored.values()}
    narrowest = min(dtypes, key=lambda dtype: dtype.itemsize, default=torch.float32)
    n_bytes = sum(tensor.nbytes for tensor in stored.values())
    return f"{str(narrowest).removeprefix('torch.')}, {n_bytes / 1e6:,.1f} MB"


def _scale_of(values: Tensor) -> Tensor:
    """Give the least float16 of each row by which its largest value is at most 127; (rows,)."""
    largest = values.flatten(1).abs().amax(dim=1)
    scale = (largest / _LARGEST).half()
    # Rounded to the nearest it may be too small, and zero for a tiny row. The product is exact; one
    # more in the last bit is the next float16, and infinity after the last of them.
    is_short = scale.float() * _LARGEST < largest
    return (scale.view(torch.int16) + is_short.to(torch.int16)).view(torch.float16)


def _rounded(values: Tensor, scale: Tensor) -> Tensor:
    divisor = torch.where(scale == 0, 1, scale.float())  # a row of zeros
    return (values / _by_row(divisor, values)).round().to(torch.int8)


def _by_row(scale: Tensor, matrix: Tensor) -> Tensor:
    return scale.view(scale.shape + (1,) * (matrix.dim() - 1))


def _checked_scale(stored: Mapping[str, Tensor], name: str, label: str) -> Tensor:
    expected = stored[name].shape[:1]
    scale = stored.get(name + SCALE)
    if scale is None:
        raise FormatError(
            f"{label}: {name} is int8, but there is no {name + SCALE} for its rows: the file is "
            "not whole; take another copy"
        )
    if scale.shape != expected or scale.dtype != torch.float16:
        raise FormatError(
            f"{label}: {name + SCALE} has shape {tuple(scale.shape)} and type {scale.dtype}; "
            f"expected {tuple(expected)} and {torch.float16}, one for each row of {name}"
        )
    return scale
