"""Minimal Parquet writer: plain encoding, one page per column, uncompressed.

Cells contain numbers, strings or arrays of them, which are stored as nested lists. The list
structure follows from the array shapes (`parquet_levels.py`), and array values are written directly
from memory. The schema allows null values, as Arrow's does, but none are written. File format:
https://parquet.apache.org/docs/file-format/
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from elmo.errors import OutputError
from elmo.formats.parquet_levels import (
    Shape,
    definition_levels,
    null_levels,
    repetition_levels,
    truncate_at_zero,
)
from elmo.formats.thrift import (
    BINARY,
    I32,
    STRUCT,
    Value,
    binary,
    i32,
    i64,
    list_of,
    string,
    struct,
)

MAGIC = b"PAR1"
# Format version 1 is readable everywhere; the meaning of version 2 was never agreed upon.
VERSION = 1
OPTIONAL, REPEATED = 1, 2
LIST_CONVERTED, LIST_LOGICAL = 3, 3
PLAIN, RLE = 0, 3
UNCOMPRESSED = 0
DATA_PAGE = 0
# The page header stores the page size in 32 bits.
MAX_PAGE_BYTES = 2**31 - 1
LENGTH = Struct("<I")

EMPTY = struct({})


@dataclass(frozen=True)
class ColumnType:
    """Numbers of the physical, converted (for older readers) and logical type of a column.

    `n_bytes` is the size of a value of fixed-length byte arrays.
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
    """A column of the table, with `depth` nested lists around a value."""

    name: str
    value_type: ColumnType
    depth: int = 0

    def path_in_schema(self) -> list[str]:
        """Return the path from the root of the schema to the values."""
        return [self.name, *["list", "element"] * self.depth]

    def schema(self) -> Iterator[Value]:
        """Yield the schema elements, from the outermost list down to the values."""
        name = self.name
        for _ in range(self.depth):
            yield _element(name, OPTIONAL, None, 1, LIST_CONVERTED, LIST_LOGICAL)
            yield _element("list", REPEATED, None, 1)
            name = "element"
        value_type = self.value_type
        yield _element(name, OPTIONAL, value_type, None, value_type.converted, value_type.logical)


@dataclass(frozen=True)
class Cells:
    """The content of one column for a group of rows.

    Attributes:
        shapes: Shape of the array in each row, with `depth` dimensions; None for a null, which only
            a column without lists can contain.
        data: Values of all rows, little-endian, in one or more buffers.
        bounds: Encoded minimum and maximum for the column statistics, or None.
    """

    shapes: Sequence[Shape | None]
    data: Sequence[bytes | memoryview]
    bounds: tuple[bytes, bytes] | None = None


class ParquetFile:
    """A Parquet file opened for writing, one row group at a time."""

    def __init__(self, path: Path, columns: Sequence[Column], program: str) -> None:
        """Create the file; `program` (a name, "version" and a version) is its `created_by`."""
        self._columns = columns
        self._program = program
        self._groups: list[Value] = []
        self._n_rows = 0
        self._file = path.open("wb")
        self._position = 0
        self._write(MAGIC)

    def write(self, cells: Sequence[Cells]) -> None:
        """Write a row group: the content of each column."""
        n_rows = len(cells[0].shapes)
        start = self._position
        chunks = [
            self._write_chunk(column, content)
            for column, content in zip(self._columns, cells, strict=True)
        ]
        size = i64(self._position - start)
        group = {1: list_of(STRUCT, chunks), 2: size, 3: i64(n_rows), 5: i64(start), 6: size}
        self._groups.append(struct(group))
        self._n_rows += n_rows

    def _write_chunk(self, column: Column, cells: Cells) -> Value:
        """Write a data page and return its column metadata for the footer."""
        start = self._position
        if column.depth:
            shapes = [truncate_at_zero(shape) for shape in cells.shapes if shape is not None]
            n_entries = sum(map(prod, shapes))
            levels = _sized(repetition_levels(shapes)) + _sized(definition_levels(shapes))
        else:
            n_entries = len(cells.shapes)
            levels = _sized(null_levels([shape is None for shape in cells.shapes]))
        size = len(levels) + sum(memoryview(part).nbytes for part in cells.data)
        if size > MAX_PAGE_BYTES:
            raise OutputError(
                f"Column {column.name} has {size:,} bytes in a row group, more than a Parquet page "
                f"can hold ({MAX_PAGE_BYTES:,}). Split long lines or write HDF5."
            )
        page = {1: i32(n_entries), 2: i32(PLAIN), 3: i32(RLE), 4: i32(RLE)}
        header = struct({1: i32(DATA_PAGE), 2: i32(size), 3: i32(size), 5: struct(page)})
        for part in (header.data, levels, *cells.data):
            self._write(part)
        written = i64(self._position - start)
        metadata = {
            1: i32(column.value_type.physical),
            2: list_of(I32, [i32(RLE), i32(PLAIN)]),
            3: list_of(BINARY, [string(name) for name in column.path_in_schema()]),
            4: i32(UNCOMPRESSED),
            5: i64(n_entries),
            6: written,
            7: written,
            9: i64(start),
            12: _statistics(cells.bounds) if cells.bounds else None,
        }
        return struct({2: i64(0), 3: struct(metadata)})

    def _write(self, data: bytes | memoryview) -> None:
        self._position += self._file.write(data)

    def close(self) -> None:
        """Write the footer and close the file."""
        with self._file:
            root = struct({4: string("schema"), 5: i32(len(self._columns))})
            elements = [element for column in self._columns for element in column.schema()]
            # Readers ignore the statistics unless the column order is declared.
            orders = [struct({1: EMPTY}) for _ in self._columns]
            footer = struct(
                {
                    1: i32(VERSION),
                    2: list_of(STRUCT, [root, *elements]),
                    3: i64(self._n_rows),
                    4: list_of(STRUCT, self._groups),
                    6: string(self._program),
                    7: list_of(STRUCT, orders),
                }
            )
            self._write(footer.data + LENGTH.pack(len(footer.data)) + MAGIC)


def _element(
    name: str,
    repetition: int,
    value_type: ColumnType | None,
    n_children: int | None,
    converted: int | None = None,
    logical: int | None = None,
) -> Value:
    return struct(
        {
            1: i32(value_type.physical) if value_type else None,
            2: i32(value_type.n_bytes) if value_type and value_type.n_bytes else None,
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
    """Return strings in plain encoding: the byte length of each string, then its bytes."""
    encoded = [text.encode() for text in texts]
    sizes = map(LENGTH.pack, map(len, encoded))
    return b"".join(chain.from_iterable(zip(sizes, encoded, strict=True)))


def plain_numbers(numbers: NDArray[np.generic], dtype: str) -> memoryview:
    """Return an array in plain encoding, without copying if it already has the given dtype."""
    return np.ascontiguousarray(numbers, np.dtype(dtype).newbyteorder("<")).reshape(-1).data
