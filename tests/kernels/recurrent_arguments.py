"""Random arguments of recurrent layers for tests, and `torch.nn` modules with the same weights."""

import torch
from torch import nn

from elmo.kernels.recurrent_call import GATES, RecurrentCall

STEPS, BATCH, DIM, HIDDEN, PROJECTION = 5, 3, 4, 6, 2
CELLS = ("rnn", "relu", "gru", "lstm", "lstmp")
"""Cell types, with the RNN in both variants."""


def arguments(
    cell, steps=STEPS, batch=BATCH, dim=DIM, hidden=HIDDEN, dtype=torch.float64, masked=False
):
    """Return random tensors of a call by name, with None for those that the cell does not have."""
    generator = torch.Generator().manual_seed(0)
    out = PROJECTION if cell == "lstmp" else hidden
    rows = GATES[cell_and_activation(cell)[0]] * hidden
    shapes = {
        "x": (steps, batch, dim),
        "h": (batch, out),
        "c": (batch, hidden) if cell.startswith("lstm") else None,
        "weight_ih": (rows, dim),
        "weight_hh": (rows, out),
        "bias_ih": (rows,),
        "bias_hh": (rows,),
        "weight_hr": (out, hidden) if cell == "lstmp" else None,
    }
    tensors = {
        name: None if shape is None else 0.5 * torch.randn(shape, generator=generator, dtype=dtype)
        for name, shape in shapes.items()
    }
    if masked:
        kept = torch.rand(batch, out, generator=generator) < 0.7
        tensors["state_mask"] = kept.to(dtype) / 0.7
    return tensors


def cell_and_activation(cell):
    """Return the cell type and activation function of an element of CELLS."""
    return ("rnn", "relu") if cell == "relu" else (cell, "tanh")


def make_call(cell, tensors):
    """Return the call of an element of CELLS."""
    cell, activation = cell_and_activation(cell)
    return RecurrentCall(cell=cell, activation=activation, **tensors)


def leaves_of(tensors):
    """Return copies of the tensors that require gradients, except for the mask."""
    return {
        name: value
        if value is None or name == "state_mask"
        else value.clone().detach().requires_grad_()
        for name, value in tensors.items()
    }


def with_gradients(run, cell, tensors):
    """Run a kernel and return its results and the gradients of a loss of all results, by name."""
    leaves = leaves_of(tensors)
    result = run(make_call(cell, leaves))
    return results_and_gradients(result.output, result.h, result.c, leaves)


def results_and_gradients(output, h, c, leaves):
    """Return results and gradients by name, of a loss in which output, h and c have weights."""
    values = {"output": output, "final h": h} | ({} if c is None else {"final c": c})
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        # Drawn on the CPU, so that the numbers are the same on every device.
        (value * torch.randn(value.shape, generator=generator, dtype=value.dtype).to(value)).sum()
        for value in values.values()
    )
    named = {name: leaf for name, leaf in leaves.items() if leaf is not None and leaf.requires_grad}
    gradients = torch.autograd.grad(loss, list(named.values()))
    return values | dict(zip(named, gradients, strict=True))


def with_module(cell, tensors):
    """Run the module of `torch.nn` and return its results and gradients by name."""
    leaves = leaves_of(tensors)
    module = make_module(cell, tensors)
    state = leaves["h"][None]
    if leaves["c"] is not None:
        state = (state, leaves["c"][None])
    names = {
        f"{name}_l0": leaf for name, leaf in leaves.items() if name[:6] in ("weight", "bias_i")
    }
    names |= {"bias_hh_l0": leaves["bias_hh"]}
    parameters = {name: leaf for name, leaf in names.items() if leaf is not None}
    output, final = torch.func.functional_call(module, parameters, (leaves["x"], state))
    h, c = final if leaves["c"] is not None else (final, None)
    return results_and_gradients(output, h[0], None if c is None else c[0], leaves)


def make_module(cell, tensors):
    """Return the module of `torch.nn` with the weights of a call."""
    (rows, dim), hidden = tensors["weight_ih"].shape, tensors["h"].shape[1]
    module: nn.RNNBase
    if cell == "gru":
        module = nn.GRU(dim, hidden)
    elif cell in ("lstm", "lstmp"):
        module = nn.LSTM(dim, rows // 4, proj_size=hidden if cell == "lstmp" else 0)
    else:
        module = nn.RNN(dim, hidden, nonlinearity=cell_and_activation(cell)[1])
    module = module.to(tensors["x"].dtype)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(tensors[name.removesuffix("_l0")])
    return module


def assert_same(actual, expected, atol=1e-12, rtol=0):
    """Compare results and gradients by name."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )
