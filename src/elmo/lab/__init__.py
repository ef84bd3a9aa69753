"""Recurrent language models over characters, bytes and words."""

from elmo.lazy import fetch

__all__ = ["ElmoTextGenerator", "LanguageModel", "TextGenerator", "TextLoss"]

_HOMES = {
    "ElmoTextGenerator": "elmo.lab.elmo_generation",
    "LanguageModel": "elmo.lab.recurrent_model",
    "TextGenerator": "elmo.lab.generation",
    "TextLoss": "elmo.lab.text_loss",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
