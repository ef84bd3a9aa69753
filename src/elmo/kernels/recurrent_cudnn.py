"""Recurrent layers of language models with cuDNN."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo.kernels.lstm_cudnn import ignore_weight_layout_warning
from elmo.kernels.recurrent_call import RecurrentCall, RecurrentResult

NEEDS = "a CUDA device with cuDNN, no state mask, no Mogrifier gates and no recorded gates"


def can_run(call: RecurrentCall) -> bool:
    """Whether cuDNN supports the call."""
    return (
        call.x.is_cuda
        and torch.backends.cudnn.enabled
        and call.state_mask is None
        and not call.mogrifier
    )


def run(call: RecurrentCall) -> RecurrentResult:
    """Run the layer over all time steps; see `recurrent_reference.run`."""
    # Autocast always uses float16 here, even if set to bfloat16, and small gradients underflow.
    device = call.x.device.type
    is_autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_autocast else call.x.dtype
    weights = [call.weight_ih, call.weight_hh, call.bias_ih, call.bias_hh]
    if call.weight_hr is not None:
        weights.append(call.weight_hr)
    weights = [weight.to(dtype) for weight in weights]
    x, h = call.x.to(dtype), call.h.unsqueeze(0).to(dtype)
    # has_biases, layers, dropout, train, bidirectional, batch_first
    options = (True, 1, 0.0, torch.is_grad_enabled(), False, False)
    with torch.autocast(device, enabled=False), ignore_weight_layout_warning():
        if call.c is not None:
            state = (h, call.c.unsqueeze(0).to(dtype))
            output, new_h, new_c = torch.lstm(x, state, weights, *options)
            return RecurrentResult(output, new_h[0], new_c[0].to(call.c.dtype))
        output, new_h = _function_without_cell_state(call)(x, h, weights, *options)
        return RecurrentResult(output, new_h[0], None)


def _function_without_cell_state(call: RecurrentCall) -> Callable[..., tuple[Tensor, Tensor]]:
    if call.cell == "gru":
        return torch.gru
    return torch.rnn_tanh if call.activation == "tanh" else torch.rnn_relu
