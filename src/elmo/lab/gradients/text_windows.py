"""Windows of a text in which gradients are measured."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.config.language_models import Unit
from elmo.errors import InputError
from elmo.lab.gradients.measured_network import MeasuredNetwork
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.symbols import Ids, OpenIds, Symbols
from elmo.lab.text_loss import predictions
from elmo.progress import format_count

# Steps that a window reads before its first measured step, to leave the zero state.
WARM_UP = 100


@dataclass(frozen=True)
class TextStream:
    """What a network reads and predicts at each step of a text.

    Attributes:
        inputs: Ids that the network reads, (steps,).
        targets: Ids that it predicts, (steps,).
        unit: What a step is.
        n_symbols: Number of symbols of the text.
        new_words: Words of a language model that are not symbols, in the order of their ids, which
            continue those of the symbols.
    """

    inputs: Ids
    targets: Ids
    unit: Unit
    n_symbols: int
    new_words: tuple[str, ...] = ()

    @classmethod
    def of_symbols(cls, text: OpenIds, symbols: Symbols) -> "TextStream":
        """Return the stream of a language model for the symbol ids of a text."""
        inputs, targets = predictions(text.ids, symbols)
        return cls(inputs, targets, symbols.unit, len(text.ids), text.new_words)


@dataclass(frozen=True)
class TextWindows:
    """Windows of the same length, at regular distances in a text. They can overlap.

    Attributes:
        inputs: Symbol ids that the network reads, (warm-up + steps, windows).
        targets: Symbol ids that it predicts, (warm-up + steps, windows).
        warm_up: Number of steps that are read but not measured.
    """

    inputs: Tensor
    targets: Tensor
    warm_up: int

    @classmethod
    def of_text(cls, stream: TextStream, n_windows: int, n_steps: int) -> "TextWindows":
        """Take windows from a text.

        Args:
            stream: What the network reads and predicts.
            n_windows: Number of windows; fewer if the text has fewer positions.
            n_steps: Number of measured steps.

        Raises:
            InputError: The text is shorter than a window.
        """
        available = len(stream.inputs)
        if available < n_steps:
            length = format_count(stream.n_symbols, stream.unit.removesuffix("s"))
            raise InputError(
                f"The text has only {length}, too few for {n_steps:,} time steps. Use more text, "
                "or a smaller --steps."
            )
        # In a short text, half of the other steps leave windows at different positions.
        warm_up = min(WARM_UP, (available - n_steps) // 2)
        last_begin = available - n_steps - warm_up
        begins = np.unique(np.linspace(0, last_begin, n_windows).round().astype(np.int64))
        positions = begins + np.arange(warm_up + n_steps)[:, None]
        return cls(
            torch.from_numpy(stream.inputs[positions].astype(np.int64)),
            torch.from_numpy(stream.targets[positions].astype(np.int64)),
            warm_up,
        )

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return self.inputs.shape[1]


@torch.no_grad()
def warmed_up_state(network: MeasuredNetwork, windows: TextWindows) -> RecurrentState:
    """Return the state of a network after the warm-up steps of all windows."""
    state = network.zero_state(windows.n_windows)
    if not windows.warm_up:
        return state
    return network.run(windows.inputs[: windows.warm_up], state)[1]
