"""Tests of `elmo.lab.gradients.backward_norms`."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import TEXT, small_network
from unrolled_reference import changed_loss

from elmo.lab.gradients.backward_norms import (
    FIRST_STEP,
    LARGEST_NORM,
    SMALLEST_NORM,
    factor_per_step,
    gradient_curves,
    unroll,
    unrolled_windows,
    window_norms,
)
from elmo.lab.gradients.initial_networks import set_recurrent_weights
from elmo.lab.gradients.measured_network import LanguageModelNetwork
from elmo.lab.gradients.recurrent_jacobian import step_jacobian
from elmo.lab.gradients.text_windows import TextStream, TextWindows

STEPS = 9


def cold_windows(symbols, n_windows=4, n_steps=STEPS):
    """Return windows without warm-up."""
    stream = TextStream.of_symbols(symbols.open_ids(TEXT), symbols)
    windows = TextWindows.of_text(stream, n_windows, n_steps)
    return dataclasses.replace(
        windows,
        inputs=windows.inputs[windows.warm_up :],
        targets=windows.targets[windows.warm_up :],
        warm_up=0,
    )


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_window_norms_match_one_backward_pass_per_state(cell, n_layers):
    network, symbols = small_network(cell=cell, n_layers=n_layers, hidden_dim=6)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = cold_windows(symbols)
    norms = window_norms(network, windows, unrolled_windows(network, windows))
    kinds = ("hidden", "cell") if cell == "lstm" else ("hidden",)
    assert set(norms) == {(layer, kind) for layer in range(n_layers) for kind in kinds}
    state = network.zero_state(windows.n_windows)
    for (layer, kind), values in norms.items():
        assert values.shape == (STEPS, windows.n_windows)
        for k in range(STEPS):
            delta = torch.zeros(windows.n_windows, 6, dtype=torch.float64, requires_grad=True)
            change = (layer, kind, STEPS - 1 - k, delta)
            changed_loss(network, windows, state, change).backward()
            np.testing.assert_allclose(values[k], delta.grad.norm(dim=1), rtol=1e-5)


def test_reference_matches_finite_differences():
    network, symbols = small_network(cell="lstm", hidden_dim=6)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = cold_windows(symbols, n_windows=1)
    state = network.zero_state(1)
    delta = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    changed_loss(network, windows, state, (1, "cell", STEPS - 3, delta)).backward()
    for unit in range(6):
        losses = []
        for size in (0.01, -0.01):
            moved = torch.zeros(1, 6, dtype=torch.float64)
            moved[0, unit] = size
            change = (1, "cell", STEPS - 3, moved)
            losses.append(float(changed_loss(network, windows, state, change)))
        # The loss has single precision.
        assert (losses[0] - losses[1]) / 0.02 == pytest.approx(float(delta.grad[0, unit]), abs=1e-4)


@settings(max_examples=10)
@given(cell=st.sampled_from(["rnn", "gru"]), seed=st.integers(0, 1000))
def test_gradients_are_products_of_jacobians(cell, seed):
    network, symbols = small_network(cell=cell, n_layers=1, hidden_dim=5, seed=seed)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = cold_windows(symbols, n_windows=1)
    states = unrolled_windows(network, windows)
    norms = window_norms(network, windows, states)[0, "hidden"]
    last = states.hidden[0][-1]
    loss = network.losses(last, windows.targets[-1])
    (gradient,) = torch.autograd.grad(loss.sum(), last)
    gradient = gradient[0]
    for k in range(1, STEPS):
        step = STEPS - k
        jacobian = step_jacobian(
            network,
            0,
            states.inputs[0][step, 0],
            states.hidden[0][step - 1][0],
            None,
        )
        gradient = jacobian.T @ gradient
        assert norms[k, 0] == pytest.approx(float(gradient.norm()), rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "lstmp", "projection_dim": 3},
        {"cell": "lstm", "mogrifier_rounds": 3},
        {"cell": "rnn", "nonlinearity": "relu"},
        {"cell": "gru", "tied": True},
        {"cell": "lstm", "unit": "words", "word_input": "characters"},
    ],
)
def test_unroll_matches_the_forward_pass(options):
    network, symbols = small_network(**options)
    network = LanguageModelNetwork(network).frozen_copy()
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 2, 8)
    state = network.zero_state(windows.n_windows)
    states = unroll(network, windows.inputs, state)
    vectors = network.network.input_vectors().double()
    expected = network.network(vectors, windows.inputs, state)
    for hidden, output in zip(states.hidden, expected.outputs, strict=True):
        torch.testing.assert_close(torch.stack(hidden), output)
    for cells, last in zip(states.cell, expected.state.c, strict=True):
        torch.testing.assert_close(cells[-1], last)
    curves = gradient_curves(network, windows, unrolled_windows(network, windows))
    assert all(len(curve.norms) == 8 and min(curve.norms) > 0 for curve in curves)


def test_norms_of_a_window_do_not_depend_on_the_others():
    network, symbols = small_network(cell="lstm")
    network = LanguageModelNetwork(network).frozen_copy()
    windows = cold_windows(symbols)
    together = window_norms(network, windows, unrolled_windows(network, windows))
    for row in range(windows.n_windows):
        alone = dataclasses.replace(
            windows,
            inputs=windows.inputs[:, row : row + 1],
            targets=windows.targets[:, row : row + 1],
        )
        norms = window_norms(network, alone, unrolled_windows(network, alone))
        for track, values in norms.items():
            np.testing.assert_allclose(values[:, 0], together[track][:, row], rtol=1e-6)


def test_curve_is_the_geometric_mean_between_deciles():
    network, symbols = small_network(cell="gru")
    network = LanguageModelNetwork(network).frozen_copy()
    windows = cold_windows(symbols)
    states = unrolled_windows(network, windows)
    norms = window_norms(network, windows, states)
    states = unrolled_windows(network, windows)
    for curve in gradient_curves(network, windows, states):
        values = norms[curve.layer, curve.state]
        np.testing.assert_allclose(curve.norms, values.prod(1) ** (1 / values.shape[1]))
        assert (np.array(curve.low) <= values.max(1)).all()
        assert (np.array(curve.low) <= curve.high).all()


def test_zero_and_infinite_gradients_have_finite_norms():
    network, symbols = small_network(cell="rnn", nonlinearity="relu", n_layers=1)
    windows = cold_windows(symbols)
    for gain, bound in ((0.0, SMALLEST_NORM), (1e200, LARGEST_NORM)):
        changed = LanguageModelNetwork(network).frozen_copy()
        set_recurrent_weights(changed.network, "identity", gain, 1)
        (curve,) = gradient_curves(changed, windows, unrolled_windows(changed, windows))
        assert curve.norms[-1] == pytest.approx(bound)


def test_norms_below_single_precision_are_kept():
    network, symbols = small_network(cell="rnn", n_layers=1)
    network = LanguageModelNetwork(network).frozen_copy()
    set_recurrent_weights(network.network, "identity", 1e-6, 1)
    windows = cold_windows(symbols)
    (curve,) = gradient_curves(network, windows, unrolled_windows(network, windows))
    assert 1e-57 < curve.norms[STEPS - 1] < 1e-46


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4), st.floats(0.3, 3), st.integers(1, 300)
)
def test_factor_ignores_norms_at_the_bounds(first, factor, n_steps):
    norms = np.array(first) * factor ** np.arange(n_steps + 1.0)[:, None]
    bounded = norms.clip(SMALLEST_NORM, LARGEST_NORM)
    assert factor_per_step(bounded) == pytest.approx(factor)


def test_factor_is_that_of_the_geometric_mean_after_the_first_steps():
    norms = np.exp(np.random.default_rng(1).normal(size=(40, 5)))
    mean = np.exp(np.log(norms).mean(axis=1))
    expected = (mean[-1] / mean[FIRST_STEP]) ** (1 / (39 - FIRST_STEP))
    assert factor_per_step(norms) == pytest.approx(expected)
    assert factor_per_step(norms[:3]) == pytest.approx((mean[2] / mean[0]) ** 0.5)


def test_factor_is_unknown_without_two_norms_between_the_bounds():
    assert factor_per_step(np.array([[1.0], [SMALLEST_NORM]])) is None
    assert factor_per_step(np.array([[SMALLEST_NORM], [1.0], [1.0]])) is None


def test_vanished_gradient_does_not_change_the_factor():
    network, symbols = small_network(cell="rnn", n_layers=1)
    network = LanguageModelNetwork(network).frozen_copy()
    factors = []
    for gain in (1e-3, 1e-8):  # at the 8 steps back, 1e-24 and less than the smallest norm
        set_recurrent_weights(network.network, "identity", gain, 1)
        windows = cold_windows(symbols)
        (curve,) = gradient_curves(network, windows, unrolled_windows(network, windows))
        factors.append(curve.factor_per_step / gain)
    assert curve.norms[-1] == pytest.approx(SMALLEST_NORM)
    assert factors[1] == pytest.approx(factors[0], rel=0.2)
