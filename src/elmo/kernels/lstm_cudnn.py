"""One LSTM layer without clips through cuDNN: the reference's call, for a batch without padding.

cuDNN knows no clips, no padding inside a batch and no resets; `choose` sends those elsewhere.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep still about weights being copied into one piece: they are, at each call."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights")
        yield


def lstm(
    x: Tensor,
    *,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    weight_hr: Tensor | None,
    h: Tensor,
    c: Tensor,
    reverse: bool,
    index: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the layer over time; see `lstm_reference.lstm` for the arguments."""
    if index is not None:
        x = functional.embedding(index, x)
    if reverse:
        x = x.flip(0)
    # Left to itself autocast takes float16 here, whatever it is set to, and small gradients vanish.
    device = x.device.type
    is_autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_autocast else x.dtype
    weights = [weight_ih, weight_hh, bias, torch.zeros_like(bias)]
    if weight_hr is not None:
        weights.append(weight_hr)
    with torch.autocast(device, enabled=False), _quiet():
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
    return (out.flip(0) if reverse else out), new_h[0], new_c[0].to(c.dtype)
