"""The whole story: senses told apart by a trained model; prepare, pre-train, fine-tune, embed."""

from typing import Any

from elmo.lazy import fetch

__all__ = ["DemoResult", "demo"]


def __getattr__(name: str) -> Any:
    return fetch(name, dict.fromkeys(__all__, "elmo.demo.run"), __name__)
