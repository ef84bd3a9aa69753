"""Writer for Parquet files with one row per sentence: number, words and nested vectors."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from elmo import __version__
from elmo.embed.host_arrays import HostArray
from elmo.formats.parquet import (
    FLOAT16,
    FLOAT32,
    INT64,
    MAGIC,
    STRING,
    Cells,
    Column,
    ParquetFile,
    plain_numbers,
    plain_strings,
)

# Number of words per row group; smaller in a shard, where single sentences are looked up.
ROW_GROUP_WORDS = 2**13
SHARD_GROUP_WORDS = 2**9
# Name of the carried value that is an integer: the number of the line or record.
LINE = "line"
PROGRAM = "elmo-torch"
# Bytes at the end of a file in which the name of the program is searched.
FOOTER_END = 4096
COLUMN_TYPES = {"float16": FLOAT16, "float32": FLOAT32}


def is_foreign_table(path: Path) -> bool:
    """Whether a file is a Parquet file that another program wrote, according to its footer."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        # The name of the program is one of the last fields of the footer.
        file.seek(max(0, size - FOOTER_END))
        end = file.read()
    return end.endswith(MAGIC) and PROGRAM.encode() not in end


class ParquetWriter:
    """Buffers sentences and writes them as row groups."""

    def __init__(
        self,
        path: Path,
        *,
        all_layers: bool,
        storage: str = "float32",
        first_sentence: int = 0,
        is_shard: bool = False,
        pooled: bool = False,
        names: Sequence[str] = (),
        line_is_integer: bool = True,
    ) -> None:
        """Open the file; `vector_writers.open_shard` documents the arguments.

        A shard has smaller row groups. The columns `names` contain strings, except for `line`.
        """
        self._integer_names = (LINE,) if line_is_integer else ()
        columns = [
            Column("sentence", INT64),
            Column("words", STRING, depth=1),
            Column("vectors", COLUMN_TYPES[storage], depth=2 + all_layers - pooled),
            *(Column(name, INT64 if name in self._integer_names else STRING) for name in names),
        ]
        self._names = tuple(names)
        self._file = ParquetFile(path, columns, f"{PROGRAM} version {__version__}")
        self._storage = storage
        self.group_words = SHARD_GROUP_WORDS if is_shard else ROW_GROUP_WORDS
        self.count = first_sentence
        self.n_words = 0
        self.words: list[list[str]] = []
        self.vectors: list[HostArray] = []
        self.values: list[Mapping[str, str | None]] = []

    def write(
        self,
        line: str,
        words: Sequence[str],
        vectors: HostArray,
        values: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        """Add a sentence."""
        self.values.append(values)
        self.words.append(list(words))
        self.vectors.append(vectors)
        self.n_words += len(words) + 1  # blank lines take space too
        if self.n_words >= self.group_words:
            self._flush()

    def _flush(self) -> None:
        if not self.words:
            return
        numbers = np.arange(self.count, self.count + len(self.words))
        values = plain_numbers(numbers, "int64")
        bounds = (bytes(values[:1]), bytes(values[-1:]))
        strings = plain_strings(word for words in self.words for word in words)
        chunks = [plain_numbers(vectors, self._storage) for vectors in self.vectors]
        self._file.write(
            [
                Cells([()] * len(numbers), [values], bounds),
                Cells([(len(words),) for words in self.words], [strings]),
                Cells([vectors.shape for vectors in self.vectors], chunks),
                *(self._carried_cells(name) for name in self._names),
            ]
        )
        self.count += len(self.words)
        self.n_words = 0
        self.words, self.vectors, self.values = [], [], []

    def _carried_cells(self, name: str) -> Cells:
        """Return the cells of a column of carried values."""
        values = [values[name] for values in self.values]
        if name not in self._integer_names:
            return _string_cells(values)
        numbers = np.array([int(value or 0) for value in values])
        return Cells([()] * len(values), [plain_numbers(numbers, "int64")])

    def close(self) -> None:
        """Write the remaining sentences and close the file."""
        try:
            self._flush()
        finally:
            self._file.close()


def _string_cells(values: Sequence[str | None]) -> Cells:
    """Return the cells of a column of strings, some of which can be null."""
    strings = plain_strings(value for value in values if value is not None)
    return Cells([() if value is not None else None for value in values], [strings])
