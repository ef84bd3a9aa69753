"""Recurrent language models over characters, bytes and words."""

from elmo.lazy import fetch

__all__ = [
    "ElmoTextGenerator",
    "LanguageModel",
    "TextGenerator",
    "TextLoss",
    "clamp_units",
    "clamped_loss",
    "draw_saturation",
    "explore",
    "find_units",
    "gradient_flow",
    "read_traces",
    "saturation",
]

_HOMES = {
    "ElmoTextGenerator": "elmo.lab.elmo_generation",
    "LanguageModel": "elmo.lab.recurrent_model",
    "TextGenerator": "elmo.lab.generation",
    "TextLoss": "elmo.lab.text_loss",
    "clamp_units": "elmo.lab.units.clamp_units",
    "clamped_loss": "elmo.lab.units.clamped_loss",
    "draw_saturation": "elmo.lab.units.saturation_figure",
    "explore": "elmo.lab.explorer.explore",
    "find_units": "elmo.lab.units.find_units",
    "gradient_flow": "elmo.lab.gradients.gradient_flow",
    "read_traces": "elmo.lab.units.read_traces",
    "saturation": "elmo.lab.units.saturation",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
