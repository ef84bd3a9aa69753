"""Readers and writers for model file formats.

They convert between files and `Pretrained` (config, weights, vocabulary) without building a
network.
"""

from elmo.lazy import fetch

__all__ = ["ConvertResult", "InfoResult", "Pretrained", "convert", "info", "read"]

_HOMES = {
    "ConvertResult": "elmo.formats.info_and_convert",
    "InfoResult": "elmo.formats.info_and_convert",
    "Pretrained": "elmo.formats.pretrained",
    "convert": "elmo.formats.info_and_convert",
    "info": "elmo.formats.info_and_convert",
    "read": "elmo.formats.load",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
