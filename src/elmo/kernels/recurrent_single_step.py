"""One step of a recurrent layer on a CPU without gradients, as in the generation of text.

PyTorch's functions for single cells have less overhead than the loop over the steps.
"""

import torch

from elmo.kernels.recurrent_call import RecurrentCall, RecurrentResult


def can_run(call: RecurrentCall) -> bool:
    """Whether this kernel supports the call."""
    dtype = call.x.dtype
    return (
        len(call.x) == 1
        and not torch.is_grad_enabled()
        and not call.mogrifier
        and call.state_mask is None
        and call.weight_hr is None
        and all(tensor.is_cpu and tensor.dtype == dtype for tensor in call.tensors())
        and not torch.is_autocast_enabled("cpu")
    )


def run(call: RecurrentCall) -> RecurrentResult:
    """Run one step; see `recurrent_reference.run`."""
    x = call.x[0]
    weights = (call.weight_ih, call.weight_hh, call.bias_ih, call.bias_hh)
    if call.c is not None:
        h, c = torch.lstm_cell(x, (call.h, call.c), *weights)
        return RecurrentResult(h.unsqueeze(0).clone(), h, c)
    if call.cell == "gru":
        h = torch.gru_cell(x, call.h, *weights)
    elif call.activation == "tanh":
        h = torch.rnn_tanh_cell(x, call.h, *weights)
    else:
        h = torch.rnn_relu_cell(x, call.h, *weights)
    return RecurrentResult(h.unsqueeze(0).clone(), h, None)
