"""Frames: predicates and their arguments."""

from typing import NamedTuple


class Frame(NamedTuple):
    """A predicate and its arguments.

    Attributes:
        predicate: Word index of the predicate.
        tags: One tag per word of the sentence; the predicate itself is tagged V.
    """

    predicate: int
    tags: tuple[str, ...]
