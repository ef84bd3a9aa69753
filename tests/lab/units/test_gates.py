"""Tests of gates that are computed from hidden states, against the kernel that records them."""

import pytest
import torch
from small_networks import small_network

from elmo.kernels import recurrent_reference
from elmo.lab.units.gates import call_gates


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
@pytest.mark.parametrize("n_steps", [1, 9])
def test_gates_from_hidden_states_are_recorded_ones(cell, n_steps):
    network, _ = small_network(cell=cell)
    layer = network.recurrent_layers()[0]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n_steps, 3, layer.weight_ih.shape[1], generator=generator)
    h = torch.randn(3, layer.output_dim, generator=generator)
    c = torch.randn(3, layer.hidden_dim, generator=generator) if "lstm" in cell else None
    call = layer.call(x, h, c)
    result = recurrent_reference.run(call, record=True)
    gates = call_gates(call, result.output)
    assert gates.keys() == result.gates.keys()
    for name, value in gates.items():
        torch.testing.assert_close(value, result.gates[name])
