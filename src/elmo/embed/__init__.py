"""Text embedding: the public `ELMo` class, the `embed` command, and vector files."""

from elmo.lazy import fetch

__all__ = [
    "ELMo",
    "EmbedResult",
    "Embeddings",
    "JobResult",
    "SentenceVectors",
    "embed",
    "open_embeddings",
]

_HOMES = {
    "ELMo": "elmo.embed.embedder",
    "EmbedResult": "elmo.embed.embed_result",
    "Embeddings": "elmo.embed.embeddings",
    "JobResult": "elmo.embed.embed_result",
    "SentenceVectors": "elmo.embed.embeddings",
    "embed": "elmo.embed.embed_file",
    "open_embeddings": "elmo.embed.embeddings",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
