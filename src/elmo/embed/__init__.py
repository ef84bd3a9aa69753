"""Sentences to vectors: the public `ELMo`, and files of vectors."""

from typing import Any

from elmo.lazy import fetch

__all__ = ["ELMo", "EmbedResult", "embed"]

_HOMES = {
    "ELMo": "elmo.embed.embedder",
    "EmbedResult": "elmo.embed.embed_file",
    "embed": "elmo.embed.embed_file",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _HOMES, __name__)
