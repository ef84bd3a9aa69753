"""Compact weight storage: float16, or int8 with one float16 scale per matrix row.

A row holds the weights of one output unit, so a single large weight reduces the precision of only
its own row. Quantized tensors are converted to float32 on loading, so other packages never see
them.
"""

from collections.abc import Mapping
from typing import get_args

import torch
from torch import Tensor

from elmo.config import Storage
from elmo.errors import ConfigError, FormatError

SCALE = ".scale"
_LARGEST = 127  # -128 is unused, so that quantization is symmetric


def pack(weights: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Convert finite float32 tensors to the form in which they are stored.

    int8 applies to matrices; one-dimensional tensors are then stored as float16. An int8 tensor
    `NAME` is accompanied by its row scales, `NAME.scale`. A tensor with values too large for
    float16, or for a float16 scale, is stored as float32: fixed layer mixes use weights such as
    -9e10 to exclude a layer.
    """
    if storage not in get_args(Storage):
        raise ConfigError(
            f"Unknown storage {storage!r}. Expected one of: {', '.join(get_args(Storage))}."
        )
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        values = tensor.float().contiguous()
        if storage == "int8" and values.dim() > 1:
            scale = _row_scales(values)
            if scale.isfinite().all():
                stored[name] = _quantize(values, scale)
                stored[name + SCALE] = scale
                continue
        elif storage != "float32":
            half = values.half()
            if half.isfinite().all():
                values = half
        stored[name] = values
    return stored


def unpack(stored: Mapping[str, Tensor], label: str) -> dict[str, Tensor]:
    """Convert tensors stored by `pack` to float32, multiplying int8 by row scales."""
    matrices = {name for name, tensor in stored.items() if tensor.dtype == torch.int8}
    scales = {name + SCALE for name in matrices}
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name in scales:
            continue
        if name.endswith(SCALE):
            raise FormatError(
                f"{label}: {name} is a scale, but the int8 matrix {name.removesuffix(SCALE)} is "
                "missing. The file is incomplete; use another copy."
            )
        values = tensor.float()
        if name in matrices:
            scale = _checked_scale(stored, name, label)
            values *= _broadcast_rows(scale.float(), tensor)
        weights[name] = values
    return weights


def describe_storage(stored: Mapping[str, Tensor]) -> str:
    """Return the narrowest dtype and the total size of stored tensors, such as "int8, 7.0 MB"."""
    dtypes = {tensor.dtype for tensor in stored.values()}
    narrowest = min(dtypes, key=lambda dtype: dtype.itemsize, default=torch.float32)
    n_bytes = sum(tensor.nbytes for tensor in stored.values())
    return f"{str(narrowest).removeprefix('torch.')}, {n_bytes / 1e6:,.1f} MB"


def _row_scales(values: Tensor) -> Tensor:
    """Return the smallest float16 scale per row with which no quantized value exceeds 127."""
    largest = values.flatten(1).abs().amax(dim=1)
    scale = (largest / _LARGEST).half()
    # Rounded to nearest, a scale can be too small, or zero for a row of tiny values. The product is
    # exact. Adding 1 to the bit pattern gives the next float16, or infinity after the largest.
    is_too_small = scale.float() * _LARGEST < largest
    return (scale.view(torch.int16) + is_too_small.to(torch.int16)).view(torch.float16)


def _quantize(values: Tensor, scale: Tensor) -> Tensor:
    divisor = torch.where(scale == 0, 1, scale.float())  # a row of zeros
    return (values / _broadcast_rows(divisor, values)).round().to(torch.int8)


def _broadcast_rows(scale: Tensor, matrix: Tensor) -> Tensor:
    return scale.view(scale.shape + (1,) * (matrix.dim() - 1))


def _checked_scale(stored: Mapping[str, Tensor], name: str, label: str) -> Tensor:
    expected = stored[name].shape[:1]
    scale = stored.get(name + SCALE)
    if scale is None:
        raise FormatError(
            f"{label}: {name} is int8, but its row scales {name + SCALE} are missing. The file is "
            "incomplete; use another copy."
        )
    if scale.shape != expected or scale.dtype != torch.float16:
        raise FormatError(
            f"{label}: {name + SCALE} has shape {tuple(scale.shape)} and dtype {scale.dtype}, "
            f"expected {tuple(expected)} and {torch.float16} (one scale per row of {name})."
        )
    return scale
