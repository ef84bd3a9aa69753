"""Clamped units: units of a recurrent language model that are set to a value at every step."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.kernels.recurrent_kernels import run_recurrent
from elmo.lab.generation import StepwiseGenerator
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.recurrent_stepper import RecurrentStepper
from elmo.lab.symbol_codec import SymbolCodec
from elmo.lab.symbols import Symbols

_CLAMP = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*(:\s*cell\s*)?=\s*(\S+)\s*")


@dataclass(frozen=True)
class Clamp:
    """A unit that is set to a value after each step.

    The next layer and the next step read the value.

    Attributes:
        layer: Layer, from 0.
        unit: Number of the unit, from 0.
        value: The value.
        is_cell: Whether the cell is set instead of the hidden state. The hidden state of the same
            step is computed before.
    """

    layer: int
    unit: int
    value: float
    is_cell: bool = False

    @classmethod
    def parse(cls, text: str) -> "Clamp":
        """Parse `layer:unit=value` or `layer:unit:cell=value`."""
        match = _CLAMP.fullmatch(text)
        try:
            value = float(match[4]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise ConfigError(
                f"--clamp must be layer:unit=value or layer:unit:cell=value, such as 1:37=0.5 (got "
                f"{text!r})."
            )
        return cls(int(match[1]), int(match[2]), value, match[3] is not None)

    def check(self, network: RecurrentNetwork) -> None:
        """Raise an error if a network does not have the unit."""
        layers = network.recurrent_layers()
        if self.layer >= len(layers):
            raise ConfigError(
                f"There is no layer {self.layer} to clamp. The model has the layers 0 to "
                f"{len(layers) - 1}."
            )
        if self.is_cell and network.config.network.cell not in ("lstm", "lstmp"):
            raise ConfigError(
                f"A model with {network.config.network.cell} cells has no cell state."
            )
        layer = layers[self.layer]
        width = layer.hidden_dim if self.is_cell else layer.output_dim
        if self.unit >= width:
            raise ConfigError(
                f"Layer {self.layer} has no unit {self.unit} to clamp. Its units are 0 to "
                f"{width - 1}."
            )


class ClampedUnits:
    """The clamps of each row of a batch, as masks and values of each layer."""

    def __init__(self, network: RecurrentNetwork, rows: Sequence[Sequence[Clamp]]) -> None:
        """Create the masks.

        Args:
            network: The network.
            rows: Clamps of each batch row. A single row is used for batches of any size.

        Raises:
            ConfigError: The network does not have a unit.
        """
        state = network.zero_state(len(rows))
        self._values = [state.h, state.c]
        self._masks = [
            [torch.zeros_like(x, dtype=torch.bool) for x in part] for part in self._values
        ]
        for row, clamps in enumerate(rows):
            for clamp in clamps:
                clamp.check(network)
                self._values[clamp.is_cell][clamp.layer][row, clamp.unit] = clamp.value
                self._masks[clamp.is_cell][clamp.layer][row, clamp.unit] = True

    def hidden(self, layer: int, h: Tensor) -> Tensor:
        """Return the hidden state of a layer, (..., batch, dim), with its clamped units."""
        return torch.where(self._masks[0][layer], self._values[0][layer].to(h.dtype), h)

    def cell(self, layer: int, c: Tensor) -> Tensor:
        """Return the cell state of a layer, (batch, dim), with its clamped units."""
        return torch.where(self._masks[1][layer], self._values[1][layer].to(c.dtype), c)


def run_clamped(
    network: RecurrentNetwork,
    vectors: Tensor,
    index: Tensor,
    state: RecurrentState,
    units: ClampedUnits,
) -> tuple[Tensor, RecurrentState]:
    """Run a network step by step, and clamp units between the steps and layers.

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
        x = torch.nn.functional.embedding(symbols, vectors).unsqueeze(0)
        h: list[Tensor] = []
        c: list[Tensor] = []
        for number, layer in enumerate(network.recurrent_layers()):
            before = state.c[number] if state.c else None
            result = run_recurrent(layer.call(x, state.h[number], before), network.kernel)
            x = units.hidden(number, result.output)
            h.append(x[0])
            if result.c is not None:
                c.append(units.cell(number, result.c))
        state = RecurrentState(tuple(h), tuple(c))
        outputs.append(x)
    return torch.cat(outputs), state


class ClampedStepper(RecurrentStepper):
    """A recurrent network with clamped units as a `StepwiseModel`."""

    def __init__(self, network: RecurrentNetwork, clamps: Sequence[Clamp]) -> None:
        """Set the clamps, which apply to all rows."""
        super().__init__(network)
        self.units = ClampedUnits(network, [clamps])

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
    return StepwiseGenerator(ClampedStepper(network, clamps), SymbolCodec(symbols))


def clamp_units(
    model: LanguageModel, clamps: Sequence[str | Clamp]
) -> StepwiseGenerator[RecurrentState]:
    """Return a generator that writes text with clamped units.

    Args:
        model: The language model.
        clamps: Clamps, such as "1:37=0.5" for unit 37 of layer 1; layers and units begin at 0.

    Raises:
        ConfigError: A clamp is invalid, or the model does not have the unit.
    """
    parsed = [Clamp.parse(clamp) if isinstance(clamp, str) else clamp for clamp in clamps]
    return clamped_generator(model.network, model.symbols, parsed)
