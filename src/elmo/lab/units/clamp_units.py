"""`clamp_units`: text generation with units that are set to a value."""

from collections.abc import Sequence

import torch

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.lab.elmo_stepper import Direction
from elmo.lab.generation import StepwiseGenerator
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.units.clamp import Clamp, parse_clamps
from elmo.lab.units.clamped_elmo import clamped_elmo_generator
from elmo.lab.units.clamped_recurrent import clamped_generator
from elmo.model.lstm import LSTMState


def clamp_units(
    model: LanguageModel | ELMo | Pretrained,
    clamps: Sequence[str | Clamp],
    *,
    direction: Direction = "forward",
    device: str | torch.device | None = None,
) -> StepwiseGenerator[RecurrentState] | StepwiseGenerator[LSTMState]:
    """Return a generator that writes text with clamped units.

    Args:
        model: A language model, or an ELMo with a softmax.
        clamps: Clamps, such as "1:37=0.5" for unit 37 of layer 1; layers and units begin at 0.
        direction: Direction of an ELMo, whose units are clamped and which writes.
        device: Device of an ELMo. Default: cuda if available.

    Raises:
        ConfigError: A clamp is invalid, or the model does not have the unit or no softmax.
    """
    parsed = parse_clamps(clamps)
    if isinstance(model, LanguageModel):
        if direction != "forward":
            raise ConfigError("direction must be forward: only ELMo models write backward.")
        return clamped_generator(model.network, model.symbols, parsed)
    if isinstance(model, ELMo):
        model = model.to_pretrained()
    return clamped_elmo_generator(model, parsed, direction, device)
