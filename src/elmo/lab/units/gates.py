"""Gates and cells of LSTM and GRU layers, computed from their hidden states.

The gates of a step depend on its input and on the hidden state before it. All hidden states are
known after a fast kernel ran the layer, so the gates of all steps are one matrix product.
"""

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.recurrent_call import RecurrentCall


def call_gates(call: RecurrentCall, hidden: Tensor) -> dict[str, Tensor]:
    """Return gates, candidate and cell of each step of a layer of a language model.

    Args:
        call: Arguments of the kernel call, in evaluation mode and without Mogrifier gates.
        hidden: Output of the kernel, (time, batch, output dim).

    Returns:
        Values by name, each (time, batch, hidden dim); empty for a simple RNN.
    """
    if call.cell == "rnn":
        return {}
    before = torch.cat([call.h.unsqueeze(0), hidden[:-1]])
    inputs = functional.linear(call.x, call.weight_ih, call.bias_ih)
    recurrent = functional.linear(before, call.weight_hh, call.bias_hh)
    if call.cell == "gru":
        return _gru_gates(inputs, recurrent)
    assert call.c is not None
    gates = _lstm_gates(inputs + recurrent)
    c = call.c
    cells: list[Tensor] = []
    for f, added in zip(gates["forget"], gates["input"] * gates["candidate"], strict=True):
        c = torch.addcmul(added, f, c)
        cells.append(c)
    return {**gates, "cell": torch.stack(cells)}


def elmo_gates(call: LSTMCall, hidden: Tensor) -> dict[str, Tensor]:
    """Return gates, candidate and cell of each step of a layer of an ELMo, (time, batch, cell).

    Args:
        call: Arguments of the kernel call, with the input as (time, batch, dim), a mask, no resets,
            and zeros as initial state.
        hidden: Output of the kernel, (time, batch, projection).
    """
    initial = call.h.unsqueeze(0)
    # At padding the output is zero, like the initial state.
    before = torch.cat([hidden[1:], initial] if call.reverse else [initial, hidden[:-1]])
    product = functional.linear(call.x, call.weight_ih, call.bias)
    product += functional.linear(before, call.weight_hh)
    gates = _lstm_gates(product)
    added = gates["input"] * gates["candidate"]
    cells = torch.empty_like(added)
    c = call.c
    numbers = range(len(added))
    for number in reversed(numbers) if call.reverse else numbers:
        c = torch.addcmul(added[number], gates["forget"][number], c)
        if call.cell_clip is not None:
            c = c.clamp(-call.cell_clip, call.cell_clip)
        c = c * call.mask[number].unsqueeze(1)
        cells[number] = c
    return {**gates, "cell": cells}


def _lstm_gates(product: Tensor) -> dict[str, Tensor]:
    i, f, g, o = product.chunk(4, dim=-1)
    return {
        "input": i.sigmoid(),
        "forget": f.sigmoid(),
        "candidate": g.tanh(),
        "output": o.sigmoid(),
    }


def _gru_gates(inputs: Tensor, recurrent: Tensor) -> dict[str, Tensor]:
    input_r, input_z, input_n = inputs.chunk(3, dim=-1)
    recurrent_r, recurrent_z, recurrent_n = recurrent.chunk(3, dim=-1)
    r = (input_r + recurrent_r).sigmoid()
    z = (input_z + recurrent_z).sigmoid()
    return {"reset": r, "update": z, "candidate": (input_n + r * recurrent_n).tanh()}
