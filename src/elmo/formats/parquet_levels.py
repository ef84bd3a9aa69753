"""Levels of Parquet, which tell where nested lists begin and end, of lists as regular as arrays.

A row is a number of entries: all its innermost values and, for each list that is empty, one entry
in its place. Two levels of each entry (Dremel's) are told, as runs of equal ones. Of an array these
follow from its shape, two runs for each vector, and no value is looked at.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import prod

from elmo.formats.thrift import varint

Shape = tuple[int, ...]


def cut_at_nothing(shape: Shape) -> Shape:
    """Cut a shape where it is 0: below an empty list there is nothing to tell."""
    return shape[: shape.index(0)] if 0 in shape else shape


def definition_levels(shapes: Sequence[Shape]) -> bytes:
    """Say how deep each entry goes: a level for being there, two for each list that has it.

    Args:
        shapes: of the rows, cut.
    """
    alike = groupby(shapes, len)
    return b"".join(_run(sum(map(prod, rows)), 1 + 2 * depth) for depth, rows in alike)


def repetition_levels(shapes: Sequence[Shape]) -> bytes:
    """Say of each entry which list goes on with it, from the outside; 0 begins a row.

    Args:
        shapes: of the rows, cut.
    """
    return b"".join(map(_repetition, shapes))


def _repetition(shape: Shape) -> bytes:
    *outer, inner = shape or (1,)
    # An innermost list is two runs: its first entry, which tells where it begins, and the others.
    levels = _run(1, len(outer)) + _run(inner - 1, len(shape))
    for axis in reversed(range(len(outer))):
        head = _run(1, axis)
        levels = head + (levels * outer[axis])[len(head) :]
    return levels


# Rows are of few lengths, so the same runs come again and again.
@lru_cache(1024)
def _run(count: int, level: int) -> bytes:
    """Write a run: twice its length as a varint, then the level, which fits a byte."""
    return varint(2 * count) + bytes([level]) if count else b""
