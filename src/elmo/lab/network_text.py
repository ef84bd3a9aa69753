"""Short descriptions of the architecture of recurrent language models."""

from collections.abc import Sequence

from elmo.config.language_models import RecurrentConfig
from elmo.progress import format_count


def network_text(shape: RecurrentConfig) -> str:
    """Return cell, depth and widths of a network in a few words."""
    dims = shape.layer_dims
    text = f"{shape.cell}, {format_count(shape.n_layers, 'layer')} of "
    text += widths_text([hidden for hidden, _ in dims])
    if shape.cell == "lstmp":
        text += f", projected to {widths_text([output for _, output in dims])}"
    if shape.word_input == "characters":
        text += ", input from characters"
    if shape.mogrifier_rounds:
        text += f", {shape.mogrifier_rounds} Mogrifier rounds"
    return f"{text}, tied softmax" if shape.tied else text


def widths_text(widths: Sequence[int]) -> str:
    """Return the width of the first layer, and that of the last one if it differs."""
    first, last = widths[0], widths[-1]
    return f"{first:,}" if first == last else f"{first:,} (last {last:,})"
