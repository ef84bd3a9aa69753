"""Lazy imports for the public names of a package."""

from collections.abc import Mapping
from importlib import import_module


def fetch(name: str, homes: Mapping[str, str], package: str) -> object:
    """Import the module that defines a name, according to `homes`, and return the object."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    found: object = getattr(import_module(homes[name]), name)
    return found
