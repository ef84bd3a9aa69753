"""Resolves the `precision` option of `encode` to the dtypes used for encoding."""

from dataclasses import dataclass

import torch

from elmo.errors import ConfigError
from elmo.kernels import compute_precision
from elmo.kernels.device import HALF_DTYPES, onednn_has_bfloat16
from elmo.kernels.native_ffi import can_compute

KNOWN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Dtypes that can be computed in; narrower floats can only be stored."""


@dataclass(frozen=True)
class ComputeDtype:
    """Dtypes used in one encoding run.

    Attributes:
        weights: Dtype to which the weights are converted before encoding.
        cpu_precision: Precision of matrix products in the CPU kernels; applies to float32 weights
            only.
        results: Dtype of results that are returned as tensors on the device.
    """

    weights: torch.dtype
    cpu_precision: compute_precision.Precision
    results: torch.dtype

    @property
    def name(self) -> str:
        """The value of the `precision` option that resolves to these dtypes."""
        weights = str(self.weights).removeprefix("torch.")
        return weights if self.cpu_precision == "float32" else self.cpu_precision


def resolve_compute_dtype(
    precision: torch.dtype | str | None, weights_dtype: torch.dtype, device: torch.device
) -> ComputeDtype:
    """Return the dtypes to use for the requested precision.

    Args:
        precision: A torch dtype or its name, "int8", "auto", or None for the dtype of the weights.
        weights_dtype: Dtype of the weights.
        device: Device of the weights.

    Raises:
        ConfigError: The precision is unknown or not supported on the device.
    """
    if precision is None:
        return _float_dtypes(weights_dtype, device)
    if precision == "int8":
        return _int8_dtypes(weights_dtype, device)
    dtype = getattr(torch, precision, None) if isinstance(precision, str) else precision
    if precision == "auto":
        dtype = torch.bfloat16 if _is_bfloat16_fast(device) else torch.float32
    if not isinstance(dtype, torch.dtype) or dtype not in KNOWN:
        raise ConfigError(
            f"Unknown precision {precision!r}. Expected one of: auto, float32, bfloat16, float16, "
            "float64, int8."
        )
    if dtype == torch.bfloat16 and device.type == "cpu" and weights_dtype == torch.float32:
        if can_compute("bfloat16"):
            return ComputeDtype(weights_dtype, "bfloat16", dtype)
    return _float_dtypes(dtype, device)


def _float_dtypes(dtype: torch.dtype, device: torch.device) -> ComputeDtype:
    """Return the dtypes to use for a floating-point precision.

    If the CPU does not support the requested half precision, float32 is used for the computation,
    because PyTorch would be hundreds of times slower in half precision.
    """
    is_fast = dtype == torch.bfloat16 and onednn_has_bfloat16()
    if device.type == "cpu" and dtype in HALF_DTYPES and not is_fast:
        return ComputeDtype(torch.float32, "float32", dtype)
    return ComputeDtype(dtype, "float32", dtype)


def _int8_dtypes(weights_dtype: torch.dtype, device: torch.device) -> ComputeDtype:
    if device.type != "cpu" or weights_dtype != torch.float32 or not can_compute("int8"):
        raise ConfigError(
            "precision 'int8' needs a float32 model on a CPU with AMX, AVX512-VNNI or ARM dot "
            "products, and a C compiler. Use precision 'auto' or 'float32'."
        )
    return ComputeDtype(weights_dtype, "int8", torch.float32)


def _is_bfloat16_fast(device: torch.device) -> bool:
    """Whether bfloat16 is faster than float32 on the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and can_compute("bfloat16")
