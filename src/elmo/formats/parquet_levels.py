"""Repetition and definition levels of Parquet columns that contain arrays.

Parquet describes nested lists by two levels per entry (from the Dremel paper), stored as runs of
equal levels. Entries are the innermost values of a row, plus one entry for each empty list. For
arrays the levels follow from the shape alone: two runs per innermost list, without looking at any
value.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import prod

from elmo.formats.thrift import varint

Shape = tuple[int, ...]


def truncate_at_zero(shape: Shape) -> Shape:
    """Cut a shape before its first 0: an empty list has no nested entries."""
    return shape[: shape.index(0)] if 0 in shape else shape


def definition_levels(shapes: Sequence[Shape]) -> bytes:
    """Encode how deeply each entry is defined: 1 for the row, plus 2 per nested list.

    Args:
        shapes: Shape of each row, truncated at zero.
    """
    groups = groupby(shapes, len)
    return b"".join(_run(sum(map(prod, rows)), 1 + 2 * depth) for depth, rows in groups)


def repetition_levels(shapes: Sequence[Shape]) -> bytes:
    """Encode at which nesting depth each entry continues a list; 0 starts a new row.

    Args:
        shapes: Shape of each row, truncated at zero.
    """
    return b"".join(map(_repetition, shapes))


def _repetition(shape: Shape) -> bytes:
    *outer, inner = shape or (1,)
    # An innermost list is two runs: its first entry, which starts the list, and the others.
    levels = _run(1, len(outer)) + _run(inner - 1, len(shape))
    for axis in reversed(range(len(outer))):
        head = _run(1, axis)
        levels = head + (levels * outer[axis])[len(head) :]
    return levels


# Most rows have one of few lengths, so the same runs recur.
@lru_cache(1024)
def _run(count: int, level: int) -> bytes:
    """Encode a run: twice its length as a varint, then the level in one byte."""
    return varint(2 * count) + bytes([level]) if count else b""
