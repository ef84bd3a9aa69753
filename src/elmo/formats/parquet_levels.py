"""Repetition and definition levels of Parquet columns that contain arrays.

Parquet describes nested lists with two levels per entry (see the Dremel paper), stored as runs of
equal levels. Each innermost value is an entry, and so is each empty list. For arrays, the levels
depend only on the shape, so they are computed without reading the values.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import prod

from elmo.formats.thrift import varint

Shape = tuple[int, ...]


def truncate_at_zero(shape: Shape) -> Shape:
    """Return the dimensions before the first 0, because an empty list contains no other lists."""
    return shape[: shape.index(0)] if 0 in shape else shape


def definition_levels(shapes: Sequence[Shape]) -> bytes:
    """Return the encoded Parquet definition levels of a column.

    The definition level of an entry is 1, plus 2 for each list that contains it. The shapes of the
    rows are shortened by `truncate_at_zero`.
    """
    groups = groupby(shapes, len)
    return b"".join(_run(sum(map(prod, rows)), 1 + 2 * depth) for depth, rows in groups)


def null_levels(nulls: Sequence[bool]) -> bytes:
    """Return the encoded definition levels of a column without lists: 0 for null, otherwise 1."""
    return b"".join(_run(len(list(rows)), 1 - is_null) for is_null, rows in groupby(nulls))


def repetition_levels(shapes: Sequence[Shape]) -> bytes:
    """Return the encoded Parquet repetition levels of a column.

    The repetition level of an entry is the nesting depth of the list that it continues, or 0 if it
    is the first entry of a row. The shapes of the rows are shortened by `truncate_at_zero`.
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


# Cached because the same few runs occur in most rows.
@lru_cache(1024)
def _run(count: int, level: int) -> bytes:
    """Encode a run of equal levels: twice its length as a varint, then the level as one byte."""
    return varint(2 * count) + bytes([level]) if count else b""
