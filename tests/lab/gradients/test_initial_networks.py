"""Tests of `elmo.lab.gradients.initial_networks`."""

import pytest
import torch
from small_networks import TEXT, small_network

from elmo.lab.gradients.initial_networks import (
    FORGET_BIASES,
    LARGE_GAIN,
    InitialNetworks,
    set_forget_bias,
    set_recurrent_weights,
)


def initial(**options):
    network, symbols = small_network(**options)
    return InitialNetworks(network.config, symbols, symbols.encode(TEXT), 3)


def test_network_is_that_of_the_seed():
    expected, _ = small_network(cell="gru", seed=3)
    network = initial(cell="gru").network()
    for mine, other in zip(network.recurrent_layers(), expected.recurrent_layers(), strict=True):
        assert torch.equal(mine.weight_hh, other.weight_hh)


@pytest.mark.parametrize("scheme", ["orthogonal", "identity", "uniform"])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_set_recurrent_weights_sets_every_gate(cell, scheme):
    network, _ = small_network(cell=cell)
    set_recurrent_weights(network, scheme, 2.0, 1)
    for layer in network.recurrent_layers():
        for weights in torch.split(layer.weight_hh, layer.hidden_dim):
            eye = torch.eye(layer.hidden_dim)
            if scheme == "identity":
                assert torch.equal(weights, 2 * eye)
            elif scheme == "orthogonal":
                torch.testing.assert_close(weights @ weights.T, 4 * eye, atol=1e-5, rtol=0)
            else:
                assert weights.abs().max() <= 2 / layer.hidden_dim**0.5
                assert weights.std() > 0.3 / layer.hidden_dim**0.5


def test_set_forget_bias_changes_only_the_forget_gate():
    network, _ = small_network(cell="lstm")
    before = [layer.bias_ih.clone() for layer in network.recurrent_layers()]
    set_forget_bias(network, 4.0)
    for layer, old in zip(network.recurrent_layers(), before, strict=True):
        total = (layer.bias_ih + layer.bias_hh).chunk(4)[1]
        assert (total == 4).all()
        for gate in (0, 2, 3):
            assert torch.equal(layer.bias_ih.chunk(4)[gate], old.chunk(4)[gate])


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "rnn", "nonlinearity": "relu"},
        {"cell": "lstm", "mogrifier_rounds": 2, "mogrifier_rank": 2},
        {"cell": "lstmp", "projection_dim": 4},
        {"cell": "gru", "tied": True, "embedding_dim": 6},
    ],
)
def test_all_networks_can_be_created(options):
    networks = initial(**options)
    rows = [
        *networks.cells(),
        *networks.forget_biases(),
        *networks.recurrent_weights(),
    ]
    names = [name for name, _ in rows]
    assert len(set(names)) == len(names)
    assert {f"rnn, orthogonal x {LARGE_GAIN:g}", "rnn with ReLU, identity"} <= set(names)
    assert sum("forget bias" in name for name in names) == len(FORGET_BIASES)
    for name, make in rows:
        cell = name.split(",")[0].split(" ")[0]
        assert make().config.network.cell == cell


def test_forget_biases_differ_only_in_the_bias():
    rows = dict(initial(cell="lstm").forget_biases())
    small, large = rows["lstm, forget bias 0"](), rows["lstm, forget bias 4"]()
    different = [
        name
        for (name, one), other in zip(
            small.state_dict().items(), large.state_dict().values(), strict=True
        )
        if not torch.equal(one, other)
    ]
    assert different == ["layers.0.bias_ih", "layers.1.bias_ih"]
