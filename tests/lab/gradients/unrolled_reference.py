"""Slow reference of recurrent networks: plain formulas, one state changed by a vector."""

import torch


def changed_loss(network, windows, state, change):
    """Return the sum of the losses at the last step of all windows.

    Args:
        network: Frozen copy of a network without projection and Mogrifier gates.
        windows: Windows without warm-up.
        state: Initial state.
        change: Layer, kind of state, step, and the vectors (windows, dim) that are added to it.
    """
    x = list(network.embed(windows.inputs))
    for number, layer in enumerate(network.network.recurrent_layers()):
        h = state.h[number]
        c = state.c[number] if state.c else None
        outputs = []
        for step, vector in enumerate(x):
            deltas = {
                kind: delta for where, kind, at, delta in [change] if (where, at) == (number, step)
            }
            h, c = _step(layer, vector, h, c, deltas)
            outputs.append(h)
        x = outputs
    return network.losses(x[-1], windows.targets[-1]).sum()


def _step(layer, x, h, c, deltas):
    inputs = x @ layer.weight_ih.T + layer.bias_ih
    recurrent = h @ layer.weight_hh.T + layer.bias_hh
    cell = layer.config.cell
    if cell == "rnn":
        h = torch.tanh(inputs + recurrent)
    elif cell == "gru":
        (ir, iz, inew), (hr, hz, hnew) = inputs.chunk(3, 1), recurrent.chunk(3, 1)
        r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        h = (1 - z) * torch.tanh(inew + r * hnew) + z * h
    else:
        i, f, g, o = (inputs + recurrent).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c + deltas.get("cell", 0.0)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h + deltas.get("hidden", 0.0), c
