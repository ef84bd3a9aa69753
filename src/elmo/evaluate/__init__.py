"""Evaluation of language models by perplexity and of word vectors by their geometry."""

from typing import TYPE_CHECKING, Any

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.evaluate.perplexity import evaluate

__all__ = ["evaluate"]


def __getattr__(name: str) -> Any:
    return fetch(name, {"evaluate": "elmo.evaluate.perplexity"}, __name__)
