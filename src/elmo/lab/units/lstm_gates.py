"""Gates and cells of an LSTM layer, computed from its hidden states.

The gates of a step depend on its input and on the hidden state before it. All hidden states are
known after a fast kernel ran the layer, so the gates of all steps are one matrix product.
"""

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.lstm_call import LSTMCall


def lstm_gates(call: LSTMCall, hidden: Tensor) -> dict[str, Tensor]:
    """Return gates, candidate and cell of each step, (time, batch, cell).

    Args:
        call: Arguments of the kernel call, with the input as (time, batch, dim), without resets and
            with a mask. At padding, the initial state must be zero.
        hidden: Output of the kernel, (time, batch, projection).
    """
    steps = (
        [hidden[1:], call.h.unsqueeze(0)] if call.reverse else [call.h.unsqueeze(0), hidden[:-1]]
    )
    before = torch.cat(steps)
    product = functional.linear(call.x, call.weight_ih, call.bias)
    product += functional.linear(before, call.weight_hh)
    i, f, g, o = product.chunk(4, dim=-1)
    gates = {
        "input": i.sigmoid(),
        "forget": f.sigmoid(),
        "candidate": g.tanh(),
        "output": o.sigmoid(),
    }
    gates["cell"] = _cells(call, gates["forget"], gates["input"] * gates["candidate"])
    return gates


def _cells(call: LSTMCall, forget: Tensor, added: Tensor) -> Tensor:
    """Return the cells, which are zero at padding."""
    cells = torch.empty_like(added)
    c = call.c
    numbers = range(len(added))
    for number in reversed(numbers) if call.reverse else numbers:
        c = forget[number] * c + added[number]
        if call.cell_clip is not None:
            c = c.clamp(-call.cell_clip, call.cell_clip)
        c = c * call.mask[number].unsqueeze(1)
        cells[number] = c
    return cells
