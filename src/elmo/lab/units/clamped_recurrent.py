"""Recurrent language models with clamped units: states, losses and text generation."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels import recurrent_reference
from elmo.kernels.recurrent_call import RecurrentCall, RecurrentResult
from elmo.kernels.recurrent_kernels import run_recurrent
from elmo.lab.generation import StepwiseGenerator, stepper_codec
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.recurrent_stepper import RecurrentStepper
from elmo.lab.symbols import Symbols
from elmo.lab.text_loss import SegmentReader
from elmo.lab.units.clamp import Clamp, ClampedUnits, LayerSizes


def clamped_units(network: RecurrentNetwork, rows: Sequence[Sequence[Clamp]]) -> ClampedUnits:
    """Return the clamped units of a network; see `ClampedUnits`."""
    layers = network.recurrent_layers()
    cell = network.config.network.cell
    sizes = LayerSizes(
        cell,
        [layer.output_dim for layer in layers],
        [layer.hidden_dim for layer in layers] if cell in ("lstm", "lstmp") else [],
    )
    return ClampedUnits(sizes, rows, next(network.parameters()).device)


def run_clamped(
    network: RecurrentNetwork,
    vectors: Tensor,
    index: Tensor,
    state: RecurrentState,
    units: ClampedUnits,
) -> tuple[Tensor, RecurrentState]:
    """Run a network step by step, and clamp units in each step of each layer.

    Args:
        network: The network, in evaluation mode.
        vectors: Input vectors of all symbols.
        index: Symbols, (time, batch).
        state: State before the first step.
        units: The clamped units.

    Returns:
        Output of the last layer, (time, batch, dim), and the state after the last step.
    """
    outputs: list[Tensor] = []
    for symbols in index:
        x = functional.embedding(symbols, vectors).unsqueeze(0)
        h: list[Tensor] = []
        c: list[Tensor] = []
        for number, layer in enumerate(network.recurrent_layers()):
            before = state.c[number] if state.c else None
            call = layer.call(x, state.h[number], before)
            if units.has_cells(number):
                result = _run_with_cells(call, number, units)
            else:
                result = run_recurrent(call, network.kernel)
            x = units.hidden(number, result.output)
            h.append(x[0])
            if result.c is not None:
                c.append(result.c)
        state = RecurrentState(tuple(h), tuple(c))
        outputs.append(x)
    return torch.cat(outputs), state


def _run_with_cells(call: RecurrentCall, layer: int, units: ClampedUnits) -> RecurrentResult:
    """Run one step of an LSTM layer, whose hidden state is computed from the clamped cells."""
    result = recurrent_reference.run(call, record=True)
    assert result.c is not None
    assert result.gates is not None
    c = units.cell(layer, result.c)
    h = (result.gates["output"][0] * c.tanh()).to(result.h.dtype)
    if call.weight_hr is not None:
        h = functional.linear(h, call.weight_hr)
    return RecurrentResult(h.unsqueeze(0), h, c)


def clamped_reader(network: RecurrentNetwork, clamps: Sequence[Clamp]) -> SegmentReader:
    """Return a function that runs a network with clamped units, in all rows of a batch."""
    units = clamped_units(network, [clamps])

    def read(
        vectors: Tensor, index: Tensor, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        return run_clamped(network, vectors, index, state, units)

    return read


class ClampedStepper(RecurrentStepper):
    """A recurrent network with clamped units as a `StepwiseModel`."""

    def __init__(self, network: RecurrentNetwork, clamps: Sequence[Clamp]) -> None:
        """Set the clamps, which apply to all rows."""
        super().__init__(network)
        self.units = clamped_units(network, [clamps])

    @torch.no_grad()
    def read(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read symbols, (time, n); see `StepwiseModel.read`."""
        ids = ids.to(self.vectors.device)
        hidden, state = run_clamped(self.network, self.vectors, ids, state, self.units)
        return self.network.log_probabilities(hidden[-1], self.vectors), state


def clamped_generator(
    network: RecurrentNetwork, symbols: Symbols, clamps: Sequence[Clamp]
) -> StepwiseGenerator[RecurrentState]:
    """Return a generator that writes text with clamped units; see `clamp_units`."""
    stepper = ClampedStepper(network, clamps)
    return StepwiseGenerator(stepper, stepper_codec(stepper, symbols))
