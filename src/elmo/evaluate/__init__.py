"""Evaluation of language models by perplexity."""

from typing import TYPE_CHECKING

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.evaluate.evaluate_model import evaluate

__all__ = ["evaluate"]


def __getattr__(name: str) -> object:
    return fetch(name, {"evaluate": "elmo.evaluate.evaluate_model"}, __name__)
