"""Reference implementation of the recurrent layers of language models: step by step, any option."""

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.recurrent_call import MogrifierRound, RecurrentCall, RecurrentResult

Gates = dict[str, Tensor]


def run(call: RecurrentCall, record: bool = False) -> RecurrentResult:
    """Run the layer over all time steps.

    Args:
        call: Weights, input and state.
        record: Whether to return the gates of all steps.
    """
    step = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step, "lstmp": _lstm_step}[call.cell]
    # With Mogrifier gates the input of a step depends on the state.
    positions = call.x
    if not call.mogrifier:
        positions = functional.linear(call.x, call.weight_ih, call.bias_ih)
    h, c = call.h, call.c
    outputs: list[Tensor] = []
    recorded: list[Gates] = []
    for position in positions:
        inputs = position
        product_h = h if call.state_mask is None else h * call.state_mask
        if call.mogrifier:
            x, product_h = _mogrify(position, product_h, call)
            inputs = functional.linear(x, call.weight_ih, call.bias_ih)
        recurrent = functional.linear(product_h, call.weight_hh, call.bias_hh)
        h, c, gates = step(call, inputs, recurrent, h, c)
        outputs.append(h)
        recorded.append(gates)
    all_gates = None
    if record:
        all_gates = {name: torch.stack([step[name] for step in recorded]) for name in recorded[0]}
    return RecurrentResult(torch.stack(outputs), h, c, all_gates)


def _mogrify(x: Tensor, h: Tensor, call: RecurrentCall) -> tuple[Tensor, Tensor]:
    for number, weights in enumerate(call.mogrifier):
        if number % 2 == 0:
            x = 2 * _multiply(weights, h).sigmoid() * x
        else:
            h = 2 * _multiply(weights, x).sigmoid() * h
    return x, h


def _multiply(weights: MogrifierRound, x: Tensor) -> Tensor:
    if weights.right is not None:
        x = functional.linear(x, weights.right)
    return functional.linear(x, weights.left)


def _rnn_step(
    call: RecurrentCall, inputs: Tensor, recurrent: Tensor, h: Tensor, c: Tensor | None
) -> tuple[Tensor, None, Gates]:
    """Compute `h' = tanh(inputs + recurrent)`, or with relu."""
    total = inputs + recurrent
    return (total.tanh() if call.activation == "tanh" else total.relu()), None, {}


def _gru_step(
    call: RecurrentCall, inputs: Tensor, recurrent: Tensor, h: Tensor, c: Tensor | None
) -> tuple[Tensor, None, Gates]:
    """Compute `h' = (1 - z)·n + z·h` with the candidate `n = tanh(inputs + r·recurrent)`."""
    hidden = call.hidden_dim
    r, z = (inputs + recurrent)[:, : 2 * hidden].sigmoid().chunk(2, dim=1)
    n = (inputs[:, 2 * hidden :] + r * recurrent[:, 2 * hidden :]).tanh()
    new_h = (n + z * (h - n)).to(n.dtype)
    return new_h, None, {"reset": r, "update": z, "candidate": n}


def _lstm_step(
    call: RecurrentCall, inputs: Tensor, recurrent: Tensor, h: Tensor, c: Tensor | None
) -> tuple[Tensor, Tensor, Gates]:
    """Compute `c' = σ(f)·c + σ(i)·tanh(g)` and `h' = W_hr (σ(o)·tanh(c'))`."""
    assert c is not None
    i, f, g, o = (inputs + recurrent).chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    # Under autocast the gates have half precision, the cell does not.
    new_c = f * c + i * g
    new_h = (o * new_c.tanh()).to(o.dtype)
    if call.weight_hr is not None:
        new_h = functional.linear(new_h, call.weight_hr)
    gates = {"input": i, "forget": f, "candidate": g, "output": o, "cell": new_c}
    return new_h, new_c, gates
