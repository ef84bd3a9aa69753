"""Frames: predicates and their arguments."""

from typing import NamedTuple


class Frame(NamedTuple):
    """Word index of a predicate, and one tag per word; the predicate itself is tagged V."""

    predicate: int
    tags: tuple[str, ...]
