"""Losses while the units that `find_units` found are set to 0 or to their means."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.symbols import OpenIds
from elmo.lab.units.ablation import Ablation, ablated_elmo_losses, ablated_losses
from elmo.lab.units.clamp import Clamp
from elmo.lab.units.found_units import PropertyUnits
from elmo.lab.units.load_model import Loaded
from elmo.lab.units.symbol_traces import text_pieces
from elmo.lab.units.traces import Direction, Sentences, UnitTraces
from elmo.lab.units.unit_search import UnitScore
from elmo.tasks.fitted.trained_model import TrainedModel

# Number of symbols on which the loss with clamped units is measured. An ELMo has a softmax over
# many words, which takes most of the time.
POSITIONS, ELMO_POSITIONS = 5_000, 2_000


def require_language_model(model: Loaded) -> RecurrentModel | Pretrained:
    """Return a model, or raise an error if it has no loss that ablations could change."""
    if isinstance(model, TrainedModel):
        raise ConfigError(
            "ablate measures the loss of a language model, which the encoder of a task model does "
            "not have."
        )
    if isinstance(model, Pretrained) and not (model.config.n_softmax_words and model.vocabulary):
        missing = "vocabulary" if model.config.n_softmax_words else "softmax"
        raise ConfigError(
            f"ablate measures the loss of the language model, but this {model.origin} has no "
            f"{missing}. Use an ELMo model with a softmax and its vocabulary."
        )
    return model


def with_ablations(
    found: Sequence[PropertyUnits],
    model: RecurrentModel | Pretrained,
    text: str | Sentences,
    traces: UnitTraces,
    device: str | torch.device | None,
) -> list[PropertyUnits]:
    """Add the losses with the best units set to 0 and to their means, on the second half.

    The means are those of the first half. A gate cannot be clamped and has no ablations.
    """
    half = len(traces) // 2
    if isinstance(model, RecurrentModel):
        _, (ids, new_words) = text_pieces(text, model.symbols)
        first = int(traces.positions[half])
        measured = OpenIds(ids[first : first + POSITIONS], new_words)
        measure = partial(_recurrent_losses, model, measured)
    else:
        measure = partial(_elmo_losses, model, second_half(traces, ELMO_POSITIONS), device)
    result = list(found)
    directions: tuple[Direction, Direction] = ("forward", "backward")
    for direction in directions:
        clamps = {
            number: _clamps(units.units[0], traces, half)
            for number, units in enumerate(found)
            if units.units[0].track.direction == direction
        }
        losses = iter(measure(direction, [clamp for pair in clamps.values() for clamp in pair]))
        for number, pair in clamps.items():
            result[number] = replace(found[number], ablations=tuple(next(losses) for _ in pair))
    return result


def _recurrent_losses(
    model: RecurrentModel, text: OpenIds, direction: Direction, clamps: Sequence[Clamp]
) -> list[Ablation]:
    return ablated_losses(model, text, clamps) if clamps else []


def _elmo_losses(
    model: Pretrained,
    sentences: Sequence[Sequence[str]],
    device: str | torch.device | None,
    direction: Direction,
    clamps: Sequence[Clamp],
) -> list[Ablation]:
    return ablated_elmo_losses(model, sentences, direction, clamps, device) if clamps else []


def _clamps(best: UnitScore, traces: UnitTraces, half: int) -> list[Clamp]:
    """Return the clamps of a unit to 0 and to its mean; none for a gate."""
    if best.track.kind not in ("hidden", "cell"):
        return []
    mean = float(traces.values[best.track][:half, best.unit].mean())
    is_cell = best.track.kind == "cell"
    return [Clamp(best.track.layer, best.unit, value, is_cell) for value in (0.0, mean)]


def second_half(traces: UnitTraces, max_positions: int) -> list[list[str]]:
    """Return the sentences of the second half of a text of words, at least one.

    Args:
        traces: Traces of a text whose sentences end with line breaks.
        max_positions: Maximum number of words and line breaks, except for a single long sentence.
    """
    sentences: list[list[str]] = []
    first = 0
    for end, piece in enumerate(traces.pieces, start=1):
        if piece != "\n":
            continue
        if end > len(traces) // 2:
            if (
                sentences
                and sum(map(len, sentences)) + len(sentences) + end - first > max_positions
            ):
                break
            sentences.append(list(traces.pieces[first : end - 1]))
        first = end
    return sentences
