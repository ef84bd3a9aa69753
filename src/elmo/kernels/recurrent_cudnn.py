"""Recurrent layers of language models with cuDNN."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.lstm_cudnn import ignore_weight_layout_warning
from elmo.kernels.recurrent_call import RecurrentCall, RecurrentResult

NEEDS = "a CUDA device with cuDNN, no state mask, no Mogrifier gates and no recorded gates"

# Dimensions are padded to a multiple of this number. With others, such as the 1,150 units of
# AWD-LSTM, cuDNN cannot use the fast products of tensor cores: a whole training step of AWD-LSTM on
# an H200 took 14.04 ms without padding and takes 7.36 ms with it.
ALIGNMENT = 8


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
    n_outputs = call.h.shape[1]
    result = _run_aligned(_aligned(call))
    return RecurrentResult(
        result.output[..., :n_outputs],
        result.h[:, :n_outputs],
        None if result.c is None else result.c[:, : call.hidden_dim],
    )


def _aligned(call: RecurrentCall) -> RecurrentCall:
    """Return the call with padded dimensions.

    The additional units have weights and an initial state of zero. Whatever the cell, their state
    then stays zero, and nothing depends on them.
    """
    n_hidden = call.hidden_dim
    if not any(dim % ALIGNMENT for dim in (call.x.shape[-1], call.h.shape[-1], n_hidden)):
        return call
    if call.weight_hr is not None and _pad(call.h).shape[-1] >= n_hidden:
        return call  # PyTorch needs fewer outputs than hidden units, or ignores the projection.
    return replace(
        call,
        x=_pad(call.x),
        h=_pad(call.h),
        c=None if call.c is None else _pad(call.c),
        weight_ih=_pad(_pad_gates(call.weight_ih, n_hidden)),
        weight_hh=_pad(_pad_gates(call.weight_hh, n_hidden)),
        bias_ih=_pad_gates(call.bias_ih, n_hidden),
        bias_hh=_pad_gates(call.bias_hh, n_hidden),
        weight_hr=None if call.weight_hr is None else _pad(_pad(call.weight_hr.T).T),
    )


def _pad(x: Tensor) -> Tensor:
    """Pad the last dimension."""
    return functional.pad(x, (0, -x.shape[-1] % ALIGNMENT))


def _pad_gates(weight: Tensor, n_hidden: int) -> Tensor:
    """Pad the rows of each gate."""
    gates = weight.reshape(-1, n_hidden, *weight.shape[1:])
    padded = functional.pad(gates, (0, 0) * (gates.dim() - 2) + (0, -n_hidden % ALIGNMENT))
    return padded.flatten(0, 1)


def _run_aligned(call: RecurrentCall) -> RecurrentResult:
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
