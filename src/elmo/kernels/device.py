"""Device helpers: selection, supported kernels and dtypes, transfers and out-of-memory errors."""

import importlib.util
import logging
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo.errors import ConfigError, shortened

logger = logging.getLogger(__name__)

HALF_DTYPES = (torch.float16, torch.bfloat16)


def move(module: nn.Module, device: str | torch.device) -> None:
    """Move a module to a device, or raise a `ConfigError` if the device is not available."""
    try:
        module.to(available_device(device))
    except (RuntimeError, AssertionError) as error:
        raise _device_error(device, error) from None


def available_device(device: str | torch.device) -> torch.device:
    """Return a device with its index, or raise a `ConfigError` if it is not available."""
    parsed = _parsed_device(device)
    try:
        return torch.empty(0, device=parsed).device
    except (RuntimeError, AssertionError, ImportError) as error:
        raise _device_error(device, error) from None


def check_device(device: str) -> None:
    """Raise a `ConfigError` if a device does not exist, without initializing CUDA."""
    parsed = _parsed_device(device)
    n_devices = torch.cuda.device_count()
    if parsed.type == "cuda" and (parsed.index or 0) >= n_devices:
        raise _device_error(device, f"found {n_devices} CUDA devices")


def _parsed_device(device: str | torch.device) -> torch.device:
    try:
        parsed = torch.device(device)
    except RuntimeError as error:
        raise _device_error(device, error) from None
    except TypeError:
        value = shortened(repr(device), 60)
        raise ConfigError(
            f"device must be a name such as 'cpu' or 'cuda:0', or a torch.device (got {value})."
        ) from None
    if parsed.type == "meta":
        raise _device_error(device, "its tensors have no values, so the weights would be lost")
    return parsed


def _device_error(device: str | torch.device, reason: object) -> ConfigError:
    first_line = str(reason).splitlines()[0]
    return ConfigError(f"Device {str(device)!r} is not available: {first_line}")


def to_device(values: Tensor | NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array or tensor from the host to a device, asynchronously for CUDA."""
    if not isinstance(values, Tensor):
        values = torch.from_numpy(values)
    if device.type == "cuda" and not values.is_cuda:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def default_device() -> str:
    """Return "cuda" if a GPU is available, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def can_fuse(tensor: Tensor) -> bool:
    """Whether Triton kernels can run on a tensor's device. False inside `torch.compile`."""
    return tensor.is_cuda and not torch.compiler.is_compiling() and _triton_works_on(tensor.device)


@cache
def _triton_works_on(device: torch.device) -> bool:
    """Whether a test kernel runs on a device; Triton can be installed without a compiler."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if (
        importlib.util.find_spec("triton") is None
        or torch.version.hip is not None
        # `wide_product` needs products of half precision with float32 results.
        or version < (2, 8)
        or torch.cuda.get_device_capability(device) < (8, 0)
    ):
        return False
    from elmo.kernels.triton_probe import increment

    try:
        with torch.cuda.device(device):
            number = torch.zeros(1, device=device)
            increment[(1,)](number)
            return number.item() == 1
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        logger.warning(
            "Triton kernels do not work on this machine (%s). Using the slower PyTorch kernels.",
            reason,
        )
        return False


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context that makes a tensor's device current, as Triton launches require."""
    if not tensor.is_cuda:
        return nullcontext()
    return torch.cuda.device(tensor.device)


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix products with a tensor, taking autocast into account."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply two matrices, or two batches of matrices, and return the result in float32."""
    if a.is_cuda and a.dtype in HALF_DTYPES:
        multiply = torch.mm if a.dim() == 2 else torch.bmm
        return multiply(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception is an out-of-memory error of any device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    phrases = ("out of memory", "alloc_failed", "can't allocate memory", "not enough memory")
    return any(phrase in text for phrase in phrases)


def onednn_has_bfloat16() -> bool:
    """Whether PyTorch has fast bfloat16 matrix products on this CPU."""
    onednn: Any = torch.backends.mkldnn
    return bool(onednn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
