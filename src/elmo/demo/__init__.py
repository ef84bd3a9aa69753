"""The `elmo demo` command: word senses with a bundled model, then training a tiny model."""

from elmo.lazy import fetch

__all__ = ["DemoResult", "demo"]


def __getattr__(name: str) -> object:
    return fetch(name, dict.fromkeys(__all__, "elmo.demo.run"), __name__)
