"""Norms of the gradient of a loss with respect to earlier states of a recurrent network."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.lab.gradients.measured_network import MeasuredNetwork
from elmo.lab.gradients.text_windows import TextWindows, warmed_up_state
from elmo.lab.recurrent_layer import RecurrentState

StateKind = Literal["hidden", "cell"]
Norms = NDArray[np.float64]

# Norms outside these bounds count as the bounds. The gradient of a ReLU network can be exactly 0 or
# infinite, and one such window would make a geometric mean 0 or infinite.
SMALLEST_NORM, LARGEST_NORM = 1e-60, 1e60
QUANTILES = (0.1, 0.9)
# The factor per step is measured after this step: the first steps also depend on the softmax.
FIRST_STEP = 10


@dataclass(frozen=True)
class UnrolledStates:
    """States of all layers at all steps, as separate tensors that are part of one graph.

    Attributes:
        inputs: Input of each layer, (time, batch, dim).
        hidden: Hidden state by layer and step, each (batch, output_dim).
        cell: Cell state by layer and step, each (batch, hidden_dim); empty for cells without one.
        output: Output of the last layer, which the softmax reads, (time, batch, dim).
    """

    inputs: tuple[Tensor, ...]
    hidden: tuple[tuple[Tensor, ...], ...]
    cell: tuple[tuple[Tensor, ...], ...]
    output: Tensor


@dataclass(frozen=True)
class GradientCurve:
    """Gradient norms of one state of one layer, by number of steps back: 0, 1, 2, ...

    Attributes:
        layer: Layer; 0 is the lowest.
        state: "hidden", or "cell" for LSTMs.
        norms: Geometric mean over all windows.
        low: First decile of the windows.
        high: Last decile of the windows.
        factor_per_step: Mean factor by which the norm changes per step back, over the steps at
            which the norm of a window is within `SMALLEST_NORM` and `LARGEST_NORM`. None if there
            are no such steps.
    """

    layer: int
    state: StateKind
    norms: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    factor_per_step: float | None


def unroll(network: MeasuredNetwork, index: Tensor, state: RecurrentState) -> UnrolledStates:
    """Run a network step by step, keeping each state as a node of the graph.

    Args:
        network: The network, with constant weights.
        index: Symbol ids, (time, batch).
        state: Initial state.
    """
    x = network.embed(index)
    inputs, hidden, cells = [], [], []
    for number in range(network.n_layers):
        inputs.append(x)
        # The initial state is the leaf of the graph, so that all later states are in it.
        h = state.h[number].detach().clone().requires_grad_()
        c = state.c[number].detach().clone().requires_grad_() if state.c else None
        layer_hidden, layer_cells = [], []
        for position in x:
            h, c = network.step(number, position, h, c)
            layer_hidden.append(h)
            if c is not None:
                layer_cells.append(c)
        x = network.layer_output(number, x, torch.stack(layer_hidden))
        hidden.append(tuple(layer_hidden))
        cells.append(tuple(layer_cells))
    return UnrolledStates(tuple(inputs), tuple(hidden), tuple(cells) if state.c else (), x)


def unrolled_windows(network: MeasuredNetwork, windows: TextWindows) -> UnrolledStates:
    """Run a network over the measured steps of all windows."""
    state = warmed_up_state(network, windows)
    return unroll(network, windows.inputs[windows.warm_up :], state)


def window_norms(
    network: MeasuredNetwork, windows: TextWindows, states: UnrolledStates
) -> dict[tuple[int, StateKind], Norms]:
    """Return the norms of d loss(t) / d state(t - k), where t is the last step of a window.

    The windows do not depend on each other, so one backward pass from the sum of their losses gives
    the gradients of all windows, layers and steps.

    Args:
        network: The network.
        windows: Windows of a text.
        states: States of the network in these windows.

    Returns:
        By layer and kind of state, the norms by steps back and window, (k, windows).
    """
    losses = network.losses(states.output[-1], windows.targets[-1])
    tracks: list[tuple[int, StateKind]] = []
    tensors: list[Tensor] = []
    kinds: tuple[tuple[StateKind, tuple[tuple[Tensor, ...], ...]], ...] = (
        ("hidden", states.hidden),
        ("cell", states.cell),
    )
    for kind, layers in kinds:
        for layer, steps in enumerate(layers):
            tracks.append((layer, kind))
            tensors += steps
    n_steps = len(states.hidden[0])
    gradients = torch.autograd.grad(losses.sum(), tensors)
    norms = torch.stack([gradient.norm(dim=1) for gradient in gradients])
    by_track = norms.reshape(len(tracks), n_steps, -1).flip(1).numpy()
    return dict(zip(tracks, by_track, strict=True))


def gradient_curves(
    network: MeasuredNetwork, windows: TextWindows, states: UnrolledStates
) -> tuple[GradientCurve, ...]:
    """Return the mean norms of all layers, lowest first, hidden states before cells."""
    return tuple(
        _curve(layer, kind, norms)
        for (layer, kind), norms in window_norms(network, windows, states).items()
    )


def _curve(layer: int, kind: StateKind, norms: Norms) -> GradientCurve:
    norms = np.nan_to_num(norms, nan=LARGEST_NORM).clip(SMALLEST_NORM, LARGEST_NORM)
    low, high = np.quantile(norms, QUANTILES, axis=1)
    mean = np.exp(np.log(norms).mean(axis=1))
    return GradientCurve(
        layer,
        kind,
        tuple(mean.tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        factor_per_step(norms),
    )


def factor_per_step(norms: Norms) -> float | None:
    """Return the mean factor by which the norm of a window changes per step back.

    A window counts until its norm reaches a bound, where the norm is not known any more.

    Args:
        norms: Norms within the bounds, (k, windows).

    Returns:
        The geometric mean; None if no window has two norms between the bounds.
    """
    is_measured = np.logical_and.accumulate((norms > SMALLEST_NORM) & (norms < LARGEST_NORM))
    changes = np.diff(np.log(norms), axis=0)
    is_change = is_measured[1:]
    for first in (FIRST_STEP, 0):  # from 0 if the curves are short
        chosen = changes[first:][is_change[first:]]
        if len(chosen):
            return float(np.exp(chosen.mean()))
    return None
