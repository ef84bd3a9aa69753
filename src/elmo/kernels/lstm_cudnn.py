"""LSTM kernel based on cuDNN, for batches without padding.

cuDNN does not support clipping, padding within a batch or state resets; such calls use another
kernel.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.nn import functional

from elmo.kernels.lstm_call import LSTMCall, LSTMResult

NEEDS = "a CUDA device with cuDNN, rows of equal length, no clips and no resets"


@contextmanager
def ignore_weight_layout_warning() -> Iterator[None]:
    """Suppress cuDNN's warning about non-contiguous weights, which are copied in every call."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights")
        yield


def can_run(directions: Sequence[LSTMCall]) -> bool:
    """Whether cuDNN supports the call in all directions."""
    return torch.backends.cudnn.enabled and all(map(_is_supported, directions))


def _is_supported(direction: LSTMCall) -> bool:
    if not direction.x.is_cuda or direction.resets is not None or direction.active is None:
        return False
    clip = None if direction.weight_hr is None else direction.projection_clip
    is_full = all(count == len(direction.h) for count in direction.active)
    return is_full and direction.cell_clip is None and clip is None


def lstm(directions: Sequence[LSTMCall]) -> list[LSTMResult]:
    """Run the layer over all time steps in each direction; see `lstm_reference.lstm`."""
    return [_run_direction(direction) for direction in directions]


def _run_direction(direction: LSTMCall) -> LSTMResult:
    x, h, c = direction.x, direction.h, direction.c
    if direction.index is not None:
        x = functional.embedding(direction.index, x)
    if direction.reverse:
        x = x.flip(0)
    # Autocast always uses float16 here, even if set to bfloat16, and small gradients underflow.
    device = x.device.type
    is_autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_autocast else x.dtype
    bias = direction.bias
    weights = [direction.weight_ih, direction.weight_hh, bias, torch.zeros_like(bias)]
    if direction.weight_hr is not None:
        weights.append(direction.weight_hr)
    with torch.autocast(device, enabled=False), ignore_weight_layout_warning():
        # input, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first
        out, new_h, new_c = torch.lstm(
            x.to(dtype),
            (h.unsqueeze(0).to(dtype), c.unsqueeze(0).to(dtype)),
            [weight.to(dtype) for weight in weights],
            True,
            1,
            0.0,
            torch.is_grad_enabled(),
            False,
            False,
        )
    return (out.flip(0) if direction.reverse else out), new_h[0], new_c[0].to(c.dtype)
