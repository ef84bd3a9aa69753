"""Tests of `elmo.lab.gradients.recurrent_jacobian`."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import TEXT, small_network

from elmo.lab.gradients.backward_norms import unrolled_windows
from elmo.lab.gradients.initial_networks import set_recurrent_weights
from elmo.lab.gradients.measured_network import LanguageModelNetwork
from elmo.lab.gradients.recurrent_jacobian import (
    MIN_POSITIONS,
    N_POSITIONS,
    spectral_radii,
    spectral_radius,
    step_jacobian,
)
from elmo.lab.gradients.text_windows import TextStream, TextWindows

OPTIONS = [
    {"cell": "rnn"},
    {"cell": "rnn", "nonlinearity": "relu"},
    {"cell": "gru"},
    {"cell": "lstm"},
    {"cell": "lstm", "mogrifier_rounds": 2},
    {"cell": "lstmp", "projection_dim": 4},
]


def random_step(options, seed=1):
    """Return a network with one layer, and input and state of a step."""
    network, _ = small_network(n_layers=1, hidden_dim=7, **options)
    network = LanguageModelNetwork(network).frozen_copy()
    layer = network.network.recurrent_layers()[0]
    generator = torch.Generator().manual_seed(seed)

    def draw(size):
        return torch.randn(size, generator=generator, dtype=torch.float64)

    c = draw(layer.hidden_dim) if options["cell"].startswith("lstm") else None
    return network, draw(layer.weight_ih.shape[1]), draw(layer.output_dim), c


def next_state(network, x, h, c):
    after = network.step(0, x[None], h[None], None if c is None else c[None])
    return torch.cat([value[0] for value in after if value is not None])


@pytest.mark.parametrize("options", OPTIONS)
def test_step_jacobian_matches_finite_differences(options):
    network, x, h, c = random_step(options)
    jacobian = step_jacobian(network, 0, x, h, c)
    state = h if c is None else torch.cat([h, c])
    assert jacobian.shape == (len(state), len(state))
    size = 1e-6
    for column in range(len(state)):
        ends = []
        for sign in (1, -1):
            moved = state.clone()
            moved[column] += sign * size
            new_c = None if c is None else moved[len(h) :]
            ends.append(next_state(network, x, moved[: len(h)], new_c))
        slope = (ends[0] - ends[1]) / (2 * size)
        torch.testing.assert_close(jacobian[:, column], slope, rtol=1e-5, atol=1e-7)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_step_jacobian_of_rnn_is_scaled_recurrent_weight(seed):
    network, x, h, _ = random_step({"cell": "rnn"}, seed)
    after = next_state(network, x, h, None)
    expected = (1 - after**2)[:, None] * network.network.recurrent_layers()[0].weight_hh
    torch.testing.assert_close(step_jacobian(network, 0, x, h, None), expected)


@settings(max_examples=20)
@given(
    radius=st.floats(0.01, 10.0), angle=st.floats(0.0, 3.0), others=st.lists(st.floats(-1.0, 1.0))
)
def test_spectral_radius_finds_complex_eigenvalues(radius, angle, others):
    values = radius * torch.tensor(others, dtype=torch.float64)
    rotation = radius * torch.tensor(
        [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], dtype=torch.float64
    )
    assert spectral_radius(torch.block_diag(rotation, torch.diag(values))) == pytest.approx(radius)


def test_spectral_radius_is_not_the_norm():
    assert spectral_radius(torch.tensor([[0.5, 100.0], [0.0, 0.25]])) == pytest.approx(0.5)


def test_spectral_radii_has_one_row_per_layer():
    network, symbols = small_network(cell="lstm", n_layers=2)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 3, 30)
    radii = spectral_radii(network, unrolled_windows(network, windows))
    assert [row.layer for row in radii] == [0, 1]
    assert all(len(row.values) == N_POSITIONS and min(row.values) > 0 for row in radii)


def test_spectral_radii_of_identity_relu_network_are_one():
    network, symbols = small_network(cell="rnn", nonlinearity="relu", n_layers=1)
    network = LanguageModelNetwork(network).frozen_copy()
    set_recurrent_weights(network.network, "identity", 1.0, 1)
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 3, 12)
    (radii,) = spectral_radii(network, unrolled_windows(network, windows))
    # An inactive unit has the eigenvalue 0, all others 1.
    assert radii.values == pytest.approx([1.0] * len(radii.values))


def test_spectral_radii_of_wide_layers_have_fewer_positions():
    network, symbols = small_network(cell="rnn", n_layers=1, hidden_dim=600)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 2, 30)
    (radii,) = spectral_radii(network, unrolled_windows(network, windows))
    assert len(radii.values) == MIN_POSITIONS
