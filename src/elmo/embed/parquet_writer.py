"""Parquet, a row a sentence: its number, its words, their vectors as lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo import __version__
from elmo.formats.parquet import (
    FLOAT16,
    FLOAT32,
    INT64,
    STRING,
    Cells,
    Column,
    ParquetFile,
    plain_numbers,
    plain_strings,
)

# Words gathered for one row group; of a shard, in which sentences are looked up, fewer.
ROW_GROUP_WORDS = 2**13
SHARD_GROUP_WORDS = 2**9
KINDS = {"float16": FLOAT16, "float32": FLOAT32}


class ParquetWriter:
    """Sentences are held until they make a row group."""

    def __init__(
        self,
        path: Path,
        *,
        all_layers: bool,
        storage: str = "float32",
        first: int = 0,
        is_shard: bool = False,
    ) -> None:
        """Open the file.

        Args:
            path: file to write.
            all_layers: whether vectors are (layers, words, dim).
            storage: type of the numbers.
            first: number of the first sentence.
            is_shard: written for looking up sentences.
        """
        columns = [
            Column("sentence", INT64),
            Column("words", STRING, depth=1),
            Column("vectors", KINDS[storage], depth=3 if all_layers else 2),
        ]
        self._file = ParquetFile(path, columns, f"elmo-torch version {__version__}")
        self._storage = storage
        self.group_words = SHARD_GROUP_WORDS if is_shard else ROW_GROUP_WORDS
        self.count = first
        self.n_words = 0
        self.words: list[list[str]] = []
        self.vectors: list[NDArray[np.floating[Any]]] = []

    def write(self, line: str, words: Sequence[str], vectors: NDArray[np.floating[Any]]) -> None:
        """Add a sentence."""
        self.words.append(list(words))
        self.vectors.append(vectors)
        self.n_words += len(words) + 1  # blank lines take room too
        if self.n_words >= self.group_words:
            self._flush()

    def _flush(self) -> None:
        if not self.words:
            return
        numbers = np.arange(self.count, self.count + len(self.words))
        values = plain_numbers(numbers, "int64")
        bounds = (bytes(values[:1]), bytes(values[-1:]))
        spelled = plain_strings(word for words in self.words for word in words)
        pieces = [plain_numbers(vectors, self._storage) for vectors in self.vectors]
        self._file.write(
            [
                Cells([()] * len(numbers), [values], bounds),
                Cells([(len(words),) for words in self.words], [spelled]),
                Cells([vectors.shape for vectors in self.vectors], pieces),
            ]
        )
        self.count += len(self.words)
        self.n_words = 0
        self.words, self.vectors = [], []

    def close(self) -> None:
        """Finish the file."""
        try:
            self._flush()
        finally:
            self._file.close()
