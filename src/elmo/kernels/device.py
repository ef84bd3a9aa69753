"""What a device is and can do: its name, its kernels, its precision, its memory's end."""

import importlib.util
import logging
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo.errors import ConfigError

logger = logging.getLogger(__name__)

HALF_DTYPES = (torch.float16, torch.bfloat16)


def move(module: nn.Module, device: str | torch.device) -> None:
    """Move a module; a device that is not there is a `ConfigError`."""
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:
        raise _unusable(device, error) from None


def check_device(device: str) -> None:
    """Refuse a GPU that is not there, without waking those that are."""
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise _unusable(device, error) from None
    n_there = torch.cuda.device_count()
    if where.type == "cuda" and (where.index or 0) >= n_there:
        raise _unusable(device, f"CUDA has {n_there} devices")


def _unusable(device: str | torch.device, reason: object) -> ConfigError:
    first = str(reason).splitlines()[0]
    return ConfigError(f"device is {str(device)!r}, which cannot be used: {first}")


def to_device(values: Tensor | NDArray[Any], device: torch.device) -> Tensor:
    """Bring numbers of the host to a device; nobody waits for the copy."""
    if not isinstance(values, Tensor):
        values = torch.from_numpy(values)
    if device.type == "cuda" and not values.is_cuda:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def default_device() -> str:
    """Give a GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def can_fuse(tensor: Tensor) -> bool:
    """Tell whether Triton's kernels run where a tensor is; not inside of `torch.compile`."""
    return tensor.is_cuda and not torch.compiler.is_compiling() and _compiles_on(tensor.device)


@cache
def _compiles_on(device: torch.device) -> bool:
    """Try it, once for a device: Triton may be there and lack a compiler."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if (
        importlib.util.find_spec("triton") is None
        or torch.version.hip is not None
        # Half precision into float32 sums.
        or version < (2, 8)
        or torch.cuda.get_device_capability(device) < (8, 0)
    ):
        return False
    from elmo.kernels.triton_probe import increase

    try:
        with torch.cuda.device(device):
            number = torch.zeros(1, device=device)
            increase[(1,)](number)
            return number.item() == 1
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        logger.warning("Triton's kernels do not work here (%s): the plain ones are used", reason)
        return False


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch where a tensor is: Triton asks for the current device, not for the tensor's."""
    if not tensor.is_cuda:
        return nullcontext()
    return torch.cuda.device(tensor.device)


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Give the precision of products with a tensor, autocast being on or not."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices, or stacks of them, into float32: a long sum is not rounded to a half."""
    if a.is_cuda and a.dtype in HALF_DTYPES:
        multiply = torch.mm if a.dim() == 2 else torch.bmm
        return multiply(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory did not suffice, on whatever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    marks = ("out of memory", "alloc_failed", "can't allocate memory", "not enough memory")
    return any(mark in text for mark in marks)


def onednn_has_bfloat16() -> bool:
    """Tell whether PyTorch has products of bfloat16 that are fast on this CPU."""
    onednn: Any = torch.backends.mkldnn
    return bool(onednn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
