"""Change of the loss of a language model when units are set to 0 or to their means."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmo.errors import InputError
from elmo.formats.pretrained import Pretrained
from elmo.kernels.exact_float32 import exact_float32
from elmo.lab.elmo_stepper import Direction
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.symbols import OpenIds
from elmo.lab.text_loss import predictions
from elmo.lab.units.clamp import Clamp
from elmo.lab.units.clamped_elmo import clamped_elmo_bits
from elmo.lab.units.clamped_recurrent import clamped_units, run_clamped

# Symbols that are read at a time, to bound the memory.
STEPS = 512


@dataclass(frozen=True)
class Ablation:
    """Loss of a model while a unit is clamped.

    Attributes:
        clamp: The clamped unit.
        bits: Bits per symbol with the clamp.
        change: Difference to the bits without it.
    """

    clamp: Clamp
    bits: float
    change: float

    @property
    def perplexity(self) -> float:
        """Perplexity with the clamp; infinite if it would overflow."""
        return _perplexity(self.bits)

    @property
    def perplexity_change(self) -> float:
        """Difference to the perplexity without the clamp."""
        return self.perplexity - _perplexity(self.bits - self.change)


def _perplexity(bits: float) -> float:
    return 2.0**bits if bits < 1000 else np.inf


@torch.no_grad()
def ablated_losses(model: RecurrentModel, text: OpenIds, clamps: Sequence[Clamp]) -> list[Ablation]:
    """Return the loss on a text for each clamp, one at a time.

    All clamps are computed in one pass, each in its own batch row.

    Args:
        model: The language model.
        text: Symbols of the text, whose state begins at zero.
        clamps: The clamps.

    Raises:
        ConfigError: The model does not have a unit.
        InputError: The text has nothing to predict.
    """
    network = model.network
    if len(text.ids) <= (model.symbols.end is None):
        raise InputError("The text is too short to measure the loss.")
    inputs, targets = predictions(text.ids, model.symbols)
    rows: list[list[Clamp]] = [[], *([clamp] for clamp in clamps)]
    units = clamped_units(network, rows)
    vectors = network.vectors_with(text.new_words)
    state = network.zero_state(len(rows))
    total = torch.zeros(len(rows), dtype=torch.float64)
    with exact_float32():
        for first in range(0, len(targets), STEPS):
            x, y = (
                torch.from_numpy(array[first : first + STEPS].astype(np.int64))
                .to(vectors.device)
                .unsqueeze(1)
                .expand(-1, len(rows))
                for array in (inputs, targets)
            )
            hidden, state = run_clamped(network, vectors, x, state, units)
            losses = network.losses(hidden.flatten(0, 1), y.flatten(), vectors)
            total += losses.view(-1, len(rows)).double().sum(0).cpu()
    return _ablations(clamps, (total / len(targets) / np.log(2.0)).tolist())


def ablated_elmo_losses(
    model: Pretrained,
    sentences: Sequence[Sequence[str]],
    direction: Direction,
    clamps: Sequence[Clamp],
    device: str | torch.device | None = None,
) -> list[Ablation]:
    """Return the loss of one direction of an ELMo for each clamp, one at a time.

    Args:
        model: Model with a softmax and a vocabulary.
        sentences: The sentences, each of which starts from a zero state.
        direction: The direction, whose units are clamped.
        clamps: The clamps.
        device: Device of the computation. Default: cuda if available.

    Raises:
        ConfigError: The model does not have a unit, or no softmax.
    """
    rows: list[list[Clamp]] = [[], *([clamp] for clamp in clamps)]
    return _ablations(clamps, clamped_elmo_bits(model, sentences, direction, rows, device))


def _ablations(clamps: Sequence[Clamp], bits: Sequence[float]) -> list[Ablation]:
    """Return the results of clamps; the first of the losses is that without a clamp."""
    return [
        Ablation(clamp, value, value - bits[0])
        for clamp, value in zip(clamps, bits[1:], strict=True)
    ]
