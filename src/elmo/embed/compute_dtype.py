"""In which arithmetic sentences are encoded: the one that is named, or what suits the device."""

from dataclasses import dataclass

import torch

from elmo.errors import ConfigError
from elmo.kernels import compute_precision
from elmo.kernels.device import HALF_DTYPES, onednn_has_bfloat16
from elmo.kernels.native_ffi import can_compute

KNOWN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Floats narrower than these can be stored, but not computed with."""


@dataclass(frozen=True)
class ComputeDtype:
    """How a run computes.

    Attributes:
        weights: what the weights are turned into first.
        cpu_precision: what the kernels of a CPU multiply in, the weights being float32.
        results: type of tensors that stay on the device.
    """

    weights: torch.dtype
    cpu_precision: compute_precision.Precision
    results: torch.dtype

    @property
    def name(self) -> str:
        """What to ask for to compute so again."""
        own = str(self.weights).removeprefix("torch.")
        return own if self.cpu_precision == "float32" else self.cpu_precision


def resolve_compute_dtype(
    dtype: torch.dtype | str | None, own: torch.dtype, device: torch.device
) -> ComputeDtype:
    """Say how to compute.

    Args:
        dtype: a type or its name, "int8", "auto", or None for that of the weights.
        own: type of the weights.
        device: they are on.
    """
    if dtype is None:
        return _of_weights(own, device)
    if dtype == "int8":
        return _of_bytes(own, device)
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype == "auto":
        found = torch.bfloat16 if _multiplies_halves(device) else torch.float32
    if not isinstance(found, torch.dtype) or found not in KNOWN:
        raise ConfigError(
            f"dtype is {dtype!r}; expected auto, float32, bfloat16, float16, float64 or int8"
        )
    if found == torch.bfloat16 and device.type == "cpu" and own == torch.float32:
        if can_compute("bfloat16"):
            return ComputeDtype(own, "bfloat16", found)
    return _of_weights(found, device)


def _of_weights(kind: torch.dtype, device: torch.device) -> ComputeDtype:
    """Compute with weights of a type; halves that a CPU does not multiply are float32 there.

    PyTorch would take hundreds of times as long for them.
    """
    is_fast = kind == torch.bfloat16 and onednn_has_bfloat16()
    if device.type == "cpu" and kind in HALF_DTYPES and not is_fast:
        return ComputeDtype(torch.float32, "float32", kind)
    return ComputeDtype(kind, "float32", kind)


def _of_bytes(own: torch.dtype, device: torch.device) -> ComputeDtype:
    if device.type != "cpu" or own != torch.float32 or not can_compute("int8"):
        raise ConfigError(
            "dtype is int8, which needs a model in float32 on a CPU with AMX, AVX512-VNNI or "
            "ARM's dot products, and a C compiler: take auto or float32"
        )
    return ComputeDtype(own, "int8", torch.float32)


def _multiplies_halves(device: torch.device) -> bool:
    """Tell whether bfloat16 is faster than float32 there."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and can_compute("bfloat16")
