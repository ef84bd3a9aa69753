"""Resolves the `precision` option of `encode` to the dtypes used for encoding."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.kernels.device import HALF_DTYPES, onednn_has_bfloat16
from elmo.kernels.lstm_native import WIDTH_MULTIPLE, has_native_widths
from elmo.kernels.native_ffi import NumberFormat, can_compute

KNOWN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Dtypes that can be computed in; narrower floats can only be stored."""
INSTRUCTIONS = {"int8": "AMX, AVX512-VNNI or ARM dot products", "int8x3": "AMX"}
"""CPU instructions that integer precisions need."""


@dataclass(frozen=True)
class ResolvedPrecision:
    """Dtypes to which weights are converted and in which results on the device are returned.

    `number_format` is that of matrix products in the native kernels, which have float32 weights.
    """

    weights: torch.dtype
    number_format: NumberFormat
    results: torch.dtype

    @property
    def name(self) -> str:
        """Name of the precision that is used, which can be higher than the requested one."""
        weights = str(self.weights).removeprefix("torch.")
        return weights if self.number_format == "float32" else self.number_format


def lstm_widths(weights: Mapping[str, Tensor]) -> Iterator[int]:
    """Yield the dimensions of the LSTM, given weights by their names in `BiLM`.

    Those of the first layer suffice: all layers have the same. FSDP can leave flat weights.
    """
    for name, weight in weights.items():
        if "_lstm.layers.0.weight" in name and weight.dim() == 2:
            yield weight.shape[1]


def resolve_precision(
    precision: torch.dtype | str | None,
    weights_dtype: torch.dtype,
    device: torch.device,
    widths: Iterable[int] = (),
) -> ResolvedPrecision:
    """Return the dtypes to use for the requested precision.

    The precision is a torch dtype or its name, "int8", "int8x3", "auto", or None for the dtype of
    the weights. An unknown or unsupported one is an error. `widths` are the dimensions of the LSTM,
    which are only read for number formats of the native library.
    """
    if precision is None:
        return _float_precision(weights_dtype, device)
    if precision == "int8":
        return _integer_precision("int8", weights_dtype, device, widths)
    if precision == "int8x3":
        return _integer_precision("int8x3", weights_dtype, device, widths)
    dtype = getattr(torch, precision, None) if isinstance(precision, str) else precision
    if precision == "auto":
        widths = tuple(widths)
        dtype = torch.bfloat16 if _is_bfloat16_fast(device, widths) else torch.float32
    if not isinstance(dtype, torch.dtype) or dtype not in KNOWN:
        raise ConfigError(
            f"Unknown precision {precision!r}. Expected one of: auto, float32, bfloat16, float16, "
            "float64, int8, int8x3."
        )
    if dtype == torch.bfloat16 and device.type == "cpu" and weights_dtype == torch.float32:
        if can_compute("bfloat16") and has_native_widths(widths):
            return ResolvedPrecision(weights_dtype, "bfloat16", dtype)
    return _float_precision(dtype, device)


def _float_precision(dtype: torch.dtype, device: torch.device) -> ResolvedPrecision:
    """Return the dtypes to use for a floating-point precision.

    If the CPU does not support the requested half precision, float32 is used for the computation,
    because PyTorch would be hundreds of times slower in half precision.
    """
    is_fast = dtype == torch.bfloat16 and onednn_has_bfloat16()
    if device.type == "cpu" and dtype in HALF_DTYPES and not is_fast:
        return ResolvedPrecision(torch.float32, "float32", dtype)
    return ResolvedPrecision(dtype, "float32", dtype)


def _integer_precision(
    name: Literal["int8", "int8x3"],
    weights_dtype: torch.dtype,
    device: torch.device,
    widths: Iterable[int],
) -> ResolvedPrecision:
    if device.type != "cpu" or weights_dtype != torch.float32 or not can_compute(name):
        raise ConfigError(
            f"precision {name!r} needs a float32 model on a CPU with {INSTRUCTIONS[name]}, and a C "
            "compiler. Use precision 'auto' or 'float32'."
        )
    width = next((width for width in widths if not has_native_widths((width,))), None)
    if width is not None:
        raise ConfigError(
            f"precision {name!r} needs LSTM dimensions that are multiples of {WIDTH_MULTIPLE}, but "
            f"the model has {width}. Use precision 'auto' or 'float32'."
        )
    return ResolvedPrecision(weights_dtype, name, torch.float32)


def _is_bfloat16_fast(device: torch.device, widths: Iterable[int]) -> bool:
    """Whether bfloat16 is faster than float32 on the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and can_compute("bfloat16") and has_native_widths(widths)
