"""Jacobian of a recurrent step and its spectral radius."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.lab.gradients.backward_norms import UnrolledStates
from elmo.lab.gradients.measured_network import MeasuredNetwork

# Number of positions at which a Jacobian is computed. The time for eigenvalues grows with the cube
# of the dimension, so wider layers have fewer.
N_POSITIONS, MIN_POSITIONS, FULL_DIM = 24, 4, 256


@dataclass(frozen=True)
class SpectralRadii:
    """Spectral radii of the recurrent Jacobian of a layer at several positions of a text.

    Attributes:
        layer: Layer; 0 is the lowest.
        values: Largest absolute eigenvalue at each position.
    """

    layer: int
    values: tuple[float, ...]


def step_jacobian(
    network: MeasuredNetwork, layer: int, x: Tensor, h: Tensor, c: Tensor | None
) -> Tensor:
    """Return the Jacobian of the state after a step with respect to the state before it.

    The state is `h`, or `(h, c)` for LSTMs. The input of the step is constant.

    Args:
        network: The network.
        layer: The layer; 0 is the lowest.
        x: Input, (dim,).
        h: Hidden state before the step, (output_dim,).
        c: Cell state before the step, (hidden_dim,), or None.
    """
    state = h if c is None else torch.cat([h, c])
    n = len(state)
    # Row i of the batch computes the gradient of component i.
    rows = state.detach().expand(n, n).clone().requires_grad_()
    row_h = rows[:, : len(h)]
    row_c = None if c is None else rows[:, len(h) :]
    after_h, after_c = network.step(layer, x.detach().expand(n, len(x)), row_h, row_c)
    after = after_h if after_c is None else torch.cat([after_h, after_c], dim=1)
    (jacobian,) = torch.autograd.grad(after.diagonal().sum(), rows)
    return jacobian


def spectral_radius(matrix: Tensor) -> float:
    """Return the largest absolute eigenvalue."""
    return float(torch.linalg.eigvals(matrix).abs().max())


def spectral_radii(network: MeasuredNetwork, states: UnrolledStates) -> tuple[SpectralRadii, ...]:
    """Return the spectral radii of all layers at regularly chosen steps of different windows."""
    n_steps, n_windows = states.inputs[0].shape[:2]
    radii = []
    for number in range(network.n_layers):
        hidden = states.hidden[number]
        cells = states.cell[number] if states.cell else None
        dim = hidden[0].shape[1] + (0 if cells is None else cells[0].shape[1])
        count = round(N_POSITIONS * min(1.0, (FULL_DIM / dim) ** 3))
        count = min(max(count, MIN_POSITIONS), (n_steps - 1) * n_windows)
        steps = np.linspace(1, n_steps - 1, count).round().astype(int).tolist()
        values = []
        for position, step in enumerate(steps):
            row = position % n_windows
            jacobian = step_jacobian(
                network,
                number,
                states.inputs[number][step, row],
                hidden[step - 1][row],
                None if cells is None else cells[step - 1][row],
            )
            values.append(spectral_radius(jacobian))
        radii.append(SpectralRadii(number, tuple(values)))
    return tuple(radii)
