"""Recurrent language models over characters, bytes and words."""

from elmo.lazy import fetch

__all__ = ["ElmoTextGenerator", "LanguageModel", "TextGenerator", "TextLoss", "gradient_flow"]

_HOMES = {
    "ElmoTextGenerator": "elmo.lab.elmo_generation",
    "LanguageModel": "elmo.lab.recurrent_model",
    "TextGenerator": "elmo.lab.generation",
    "TextLoss": "elmo.lab.text_loss",
    "gradient_flow": "elmo.lab.gradients.gradient_flow",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
