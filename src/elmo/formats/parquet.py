"""Parquet files, written at the speed of copying memory: plain values, one page a column, unpacked.

Rows hold numbers, strings, or nested lists of them that are regular, as arrays are: of a list all
that has to be known is its shape (`parquet_levels.py`), and the values go to the file from where
they lie. Nothing is null, though the schema allows it, as Arrow's does. The format:
https://parquet.apache.org/docs/file-format/
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import OutputError
from elmo.formats.parquet_levels import Shape, cut_at_nothing, definition_levels, repetition_levels
from elmo.formats.thrift import BINARY, I32, STRUCT, Value, binary, i32, i64, many, string, struct

MAGIC = b"PAR1"
# The version that every reader knows; what it means beyond that was never agreed upon.
VERSION = 1
OPTIONAL, REPEATED = 1, 2
LIST_CONVERTED, LIST_LOGICAL = 3, 3
PLAIN, RLE = 0, 3
UNCOMPRESSED = 0
DATA_PAGE = 0
# The header of a page counts its bytes in 32 bits.
MAX_PAGE_BYTES = 2**31 - 1
LENGTH = Struct("<I")

EMPTY = struct({})


@dataclass(frozen=True)
class ColumnType:
    """What the values of a column are.

    Attributes:
        physical: type in the file.
        n_bytes: of each value, where the type does not tell.
        converted: what they mean, as older readers are told.
        logical: what they mean.
    """

    physical: int
    n_bytes: int | None = None
    converted: int | None = None
    logical: int | None = None


INT64 = ColumnType(2)
FLOAT32 = ColumnType(4)
STRING = ColumnType(6, converted=0, logical=1)
FLOAT16 = ColumnType(7, n_bytes=2, logical=15)


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        name: of the column.
        kind: of its values.
        depth: how many lists stand around a value.
    """

    name: str
    kind: ColumnType
    depth: int = 0

    def path(self) -> list[str]:
        """Give the names on the way to the values."""
        return [self.name, *["list", "element"] * self.depth]

    def schema(self) -> Iterator[Value]:
        """Give the elements of the schema, from the outside to the values."""
        name = self.name
        for _ in range(self.depth):
            yield _element(name, OPTIONAL, None, 1, LIST_CONVERTED, LIST_LOGICAL)
            yield _element("list", REPEATED, None, 1)
            name = "element"
        kind = self.kind
        yield _element(name, OPTIONAL, kind, None, kind.converted, kind.logical)


@dataclass(frozen=True)
class Cells:
    """What some rows hold in a column.

    Attributes:
        shapes: of each row, `depth` numbers.
        data: the values of all rows, little-endian, in as many pieces as they lie in.
        bounds: bytes of the least and the greatest value, where that is to be told.
    """

    shapes: Sequence[Shape]
    data: Sequence[bytes | memoryview]
    bounds: tuple[bytes, bytes] | None = None


class ParquetFile:
    """A file being written, a group of rows at a time."""

    def __init__(self, path: Path, columns: Sequence[Column], program: str) -> None:
        """Begin a file.

        Args:
            path: file to write.
            columns: of the table.
            program: who writes it: a name, "version" and a version.
        """
        self._columns = columns
        self._program = program
        self._groups: list[Value] = []
        self._n_rows = 0
        self._file = path.open("wb")
        self._place = 0
        self._write(MAGIC)

    def write(self, cells: Sequence[Cells]) -> None:
        """Add a group of rows.

        Args:
            cells: of each column.
        """
        n_rows = len(cells[0].shapes)
        start = self._place
        chunks = [
            self._write_chunk(column, content)
            for column, content in zip(self._columns, cells, strict=True)
        ]
        size = i64(self._place - start)
        group = {1: many(STRUCT, chunks), 2: size, 3: i64(n_rows), 5: i64(start), 6: size}
        self._groups.append(struct(group))
        self._n_rows += n_rows

    def _write_chunk(self, column: Column, cells: Cells) -> Value:
        """Write a page of values, and give what the end of the file will say of it."""
        start = self._place
        shapes = [cut_at_nothing(shape) for shape in cells.shapes]
        n_entries = sum(map(prod, shapes))
        levels = _sized(definition_levels(shapes))
        if column.depth:
            levels = _sized(repetition_levels(shapes)) + levels
        size = len(levels) + sum(memoryview(piece).nbytes for piece in cells.data)
        if size > MAX_PAGE_BYTES:
            raise OutputError(
                f"{size:,} bytes of {column.name} are more than a page of Parquet counts: split "
                "long lines, or write HDF5"
            )
        page = {1: i32(n_entries), 2: i32(PLAIN), 3: i32(RLE), 4: i32(RLE)}
        header = struct({1: i32(DATA_PAGE), 2: i32(size), 3: i32(size), 5: struct(page)})
        for piece in (header.data, levels, *cells.data):
            self._write(piece)
        written = i64(self._place - start)
        metadata = {
            1: i32(column.kind.physical),
            2: many(I32, [i32(RLE), i32(PLAIN)]),
            3: many(BINARY, [string(name) for name in column.path()]),
            4: i32(UNCOMPRESSED),
            5: i64(n_entries),
            6: written,
            7: written,
            9: i64(start),
            12: _statistics(cells.bounds) if cells.bounds else None,
        }
        return struct({2: i64(0), 3: struct(metadata)})

    def _write(self, data: bytes | memoryview) -> None:
        self._place += self._file.write(data)

    def close(self) -> None:
        """Finish the file."""
        with self._file:
            root = struct({4: string("schema"), 5: i32(len(self._columns))})
            elements = [element for column in self._columns for element in column.schema()]
            # Bounds are those of the type's own order; without a word on it they do not count.
            orders = [struct({1: EMPTY}) for _ in self._columns]
            footer = struct(
                {
                    1: i32(VERSION),
                    2: many(STRUCT, [root, *elements]),
                    3: i64(self._n_rows),
                    4: many(STRUCT, self._groups),
                    6: string(self._program),
                    7: many(STRUCT, orders),
                }
            )
            self._write(footer.data + LENGTH.pack(len(footer.data)) + MAGIC)


def _element(
    name: str,
    repetition: int,
    kind: ColumnType | None,
    n_children: int | None,
    converted: int | None = None,
    logical: int | None = None,
) -> Value:
    return struct(
        {
            1: i32(kind.physical) if kind else None,
            2: i32(kind.n_bytes) if kind and kind.n_bytes else None,
            3: i32(repetition),
            4: string(name),
            5: None if n_children is None else i32(n_children),
            6: None if converted is None else i32(converted),
            10: None if logical is None else struct({logical: EMPTY}),
        }
    )


def _statistics(bounds: tuple[bytes, bytes]) -> Value:
    least, greatest = bounds
    return struct({3: i64(0), 5: binary(greatest), 6: binary(least)})


def _sized(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def plain_strings(texts: Iterable[str]) -> bytes:
    """Write strings as values: the number of bytes, then the bytes, of each."""
    spelled = [text.encode() for text in texts]
    sizes = map(LENGTH.pack, map(len, spelled))
    return b"".join(chain.from_iterable(zip(sizes, spelled, strict=True)))


def plain_numbers(numbers: NDArray[Any], kind: str) -> memoryview:
    """Give an array as values, as it lies in memory where it has that type."""
    return np.ascontiguousarray(numbers, np.dtype(kind).newbyteorder("<")).reshape(-1).data
