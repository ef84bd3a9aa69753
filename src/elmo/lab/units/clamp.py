"""Clamped units: units of a recurrent network that are set to a value at every step."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.errors import ConfigError

_CLAMP = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*(:\s*cell\s*)?=\s*(\S+)\s*")


@dataclass(frozen=True)
class LayerSizes:
    """Numbers of units of the layers of a network, in one direction.

    Attributes:
        cell: Name of the recurrent cell.
        hidden_states: Number of hidden states of each layer.
        cell_states: Number of cell states of each layer; empty for cells without them.
    """

    cell: str
    hidden_states: Sequence[int]
    cell_states: Sequence[int]


@dataclass(frozen=True)
class Clamp:
    """A unit that is set to a value at each step.

    The next layer, the softmax and the next step read the value. With a cell, the hidden state of
    the same step is computed from the value, which may exceed the cell clip of an ELMo.

    Attributes:
        layer: Layer, from 0.
        unit: Number of the unit, from 0.
        value: The value.
        is_cell: Whether the cell is set instead of the hidden state.
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

    def __str__(self) -> str:
        """Return the clamp as `parse` reads it."""
        cell = ":cell" if self.is_cell else ""
        return f"{self.layer}:{self.unit}{cell}={self.value:.12g}"

    def check(self, sizes: LayerSizes) -> None:
        """Raise an error if a network does not have the unit, or cannot store the value."""
        if not abs(self.value) <= torch.finfo(torch.float32).max:
            raise ConfigError(f"The value of the clamp {self} is out of range (float32).")
        n_layers = len(sizes.hidden_states)
        if self.layer >= n_layers:
            raise ConfigError(
                f"There is no layer {self.layer} to clamp. The model has the layers 0 to "
                f"{n_layers - 1}."
            )
        if self.is_cell and not sizes.cell_states:
            raise ConfigError(f"A model with {sizes.cell} cells has no cell state.")
        width = (sizes.cell_states if self.is_cell else sizes.hidden_states)[self.layer]
        if self.unit >= width:
            raise ConfigError(
                f"Layer {self.layer} has no unit {self.unit} to clamp. Its units are 0 to "
                f"{width - 1}."
            )


class ClampedUnits:
    """The clamps of each row of a batch, as masks and values of each layer."""

    def __init__(
        self, sizes: LayerSizes, rows: Sequence[Sequence[Clamp]], device: torch.device
    ) -> None:
        """Create the masks.

        Args:
            sizes: Numbers of units of the network.
            rows: Clamps of each batch row. A single row is used for batches of any size.
            device: Device of the network.

        Raises:
            ConfigError: The network does not have a unit.
        """
        self._values = [
            [torch.zeros(len(rows), width, device=device) for width in widths]
            for widths in (sizes.hidden_states, sizes.cell_states)
        ]
        self._masks = [
            [torch.zeros_like(x, dtype=torch.bool) for x in part] for part in self._values
        ]
        self._layers_with_cells: set[int] = set()
        for row, clamps in enumerate(rows):
            for clamp in clamps:
                clamp.check(sizes)
                if clamp.is_cell:
                    self._layers_with_cells.add(clamp.layer)
                self._values[clamp.is_cell][clamp.layer][row, clamp.unit] = clamp.value
                self._masks[clamp.is_cell][clamp.layer][row, clamp.unit] = True

    def has_cells(self, layer: int) -> bool:
        """Return whether a cell of a layer is clamped in any row."""
        return layer in self._layers_with_cells

    def hidden(self, layer: int, h: Tensor) -> Tensor:
        """Return the hidden state of a layer, (..., batch, dim), with its clamped units."""
        return torch.where(self._masks[0][layer], self._values[0][layer].to(h.dtype), h)

    def cell(self, layer: int, c: Tensor) -> Tensor:
        """Return the cell state of a layer, (batch, dim), with its clamped units."""
        return torch.where(self._masks[1][layer], self._values[1][layer].to(c.dtype), c)


def parse_clamps(clamps: Sequence[str | Clamp]) -> list[Clamp]:
    """Parse the clamps that are given as texts."""
    return [Clamp.parse(clamp) if isinstance(clamp, str) else clamp for clamp in clamps]
