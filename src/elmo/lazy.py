"""Names that a package hands out only when they are asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def fetch(name: str, homes: Mapping[str, str], package: str) -> Any:
    """Import the module a name lives in and give the name.

    Args:
        name: what was asked for.
        homes: the module of each name.
        package: who was asked, for the message.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
