"""Tests of the descriptions of networks."""

import pytest
from small_language_models import small_network

from elmo.config.language_models import RecurrentConfig
from elmo.lab.network_text import network_text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_layers": 1, "hidden_dim": 1024}, "lstm, 1 layer of 1,024"),
        (
            {"n_layers": 3, "hidden_dim": 1024, "embedding_dim": 512, "tied": True},
            "lstm, 3 layers of 1,024 (last 512), tied softmax",
        ),
        (
            {"cell": "lstmp", "hidden_dim": 64, "embedding_dim": 12, "tied": True},
            "lstmp, 2 layers of 64, projected to 32 (last 12), tied softmax",
        ),
    ],
)
def test_width_of_the_last_layer_is_named_if_it_differs(options, text):
    assert network_text(RecurrentConfig(**options)) == text


@pytest.mark.parametrize("cell", ["gru", "lstmp"])
def test_described_widths_are_those_of_the_network(cell):
    network = small_network(cell=cell, n_layers=3, embedding_dim=5, tied=True)
    layers = network.recurrent_layers()
    dims = tuple((layer.hidden_dim, layer.output_dim) for layer in layers)
    assert dims == network.config.network.layer_dims
