"""Files of vectors, read one sentence at a time: Parquet, HDF5, safetensors, npz.

Each reader finds a sentence without reading the file: by row group, by key, by offset.
"""

import json
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol, cast

import h5py
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from elmo.embed.safetensors_writer import NAMES
from elmo.errors import ConfigError, FormatError, MissingExtra
from elmo.formats.container import one_line

Array = NDArray[Any]
# What damaged files make the libraries raise; Arrow's and json's errors are ValueErrors.
DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    MemoryError,
    ArithmeticError,
    zipfile.BadZipFile,
    zlib.error,
    SafetensorError,
)
# Of HDF5, beside the sentences.
OTHERS = ("sentence_to_index", "words")


class VectorReader(Protocol):
    """Gives sentences by their place in the file."""

    def __len__(self) -> int:
        """Count the sentences."""

    def read(self, place: int) -> tuple[list[str] | None, Array]:
        """Give the words, None where they are not stored, and (..., words, dim) as stored."""

    def n_words(self) -> int:
        """Count the words of all sentences."""

    def close(self) -> None:
        """Let go of the file."""


def open_reader(path: Path, first: int = 0, dim: int | None = None) -> VectorReader:
    """Open a file by its ending.

    Args:
        path: the file.
        first: number of its first sentence.
        dim: numbers of a vector, where that is known.
    """
    ending = path.suffix.lower()
    known = (".parquet", ".h5", ".hdf5", ".safetensors", ".npz")
    if ending not in known:
        raise ConfigError(
            f"the ending of {path.name} is no known format; expected {', '.join(known)} or the "
            "folder of a job"
        )
    with naming(path):
        if ending == ".parquet":
            return ParquetReader(path, dim)
        if ending == ".safetensors":
            return SafetensorsReader(path)
        return NpzReader(path) if ending == ".npz" else HDF5Reader(path, first)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read, whatever a library says of it."""
    try:
        yield
    except DAMAGE as error:
        raise FormatError(f"cannot read vectors from {path}: {one_line(error)}") from None


class ParquetReader:
    """Rows of a file; the row group read last is kept, for sentences that follow each other."""

    def __init__(self, path: Path, dim: int | None = None) -> None:
        """Open the file; a size of vectors that is known is that of empty sentences too."""
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("reading Parquet", "parquet") from None
        self._file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        metadata = self._file.metadata
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts: list[int] = [0, *accumulate(counts)]
        self._kept: tuple[int, Any] | None = None
        self._dim = dim

    def __len__(self) -> int:
        """Count the sentences."""
        return self._starts[-1]

    def read(self, place: int) -> tuple[list[str] | None, Array]:
        """Give a sentence; its row group is all that is read."""
        group = bisect_right(self._starts, place) - 1
        table = self._group(group)
        row = place - self._starts[group]
        words: list[str] = table["words"][row].as_py()
        return words, self._vectors(table["vectors"].chunk(0).slice(row, 1))

    def _group(self, group: int) -> Any:
        if self._kept is None or self._kept[0] != group:
            table = self._file.read_row_group(group, ["words", "vectors"]).combine_chunks()
            self._kept = (group, table)
        return self._kept[1]

    def _vectors(self, column: Any) -> Array:
        """Unfold one row of nested lists without a Python object a number."""
        inner = column.flatten()
        n_layers = None
        if _holds_lists(inner):
            n_layers, inner = len(inner), inner.flatten()
        numbers: Array = inner.flatten().to_numpy()
        dim = len(numbers) // len(inner) if len(inner) else self._width()
        shape = (len(inner),) if n_layers is None else (n_layers, len(inner) // n_layers)
        return numbers.reshape(*shape, dim)

    def _width(self) -> int:
        """Find the size of a vector, which a sentence without words does not tell."""
        if self._dim is None:
            self._dim = 0
            for group in range(len(self._starts) - 1):
                column = self._file.read_row_group(group, ["vectors"])["vectors"].combine_chunks()
                while _holds_lists(column):
                    column = column.flatten()
                if len(column):
                    self._dim = len(column[0])
                    break
        return self._dim

    def n_words(self) -> int:
        """Count the words of all sentences."""
        import pyarrow.compute

        groups = range(len(self._starts) - 1)
        columns = (self._file.read_row_group(group, ["words"])["words"] for group in groups)
        lengths = (pyarrow.compute.sum(pyarrow.compute.list_value_length(c)) for c in columns)
        return sum(length.as_py() or 0 for length in lengths)

    def close(self) -> None:
        """Let go of the file."""
        self._kept = None
        self._file.close()


def _holds_lists(array: Any) -> bool:
    return str(array.type.value_type).startswith("list")


class HDF5Reader:
    """Datasets keyed by the number of the sentence, as bilm-tf, AllenNLP and we write them."""

    def __init__(self, path: Path, first: int) -> None:
        """Open the file.

        Args:
            path: the file.
            first: number of its first sentence.
        """
        self._file = h5py.File(path, "r")
        self._first = first
        self._words = self._file.get("words")
        self._count = len(self._file) - sum(name in self._file for name in OTHERS)
        if self._count and str(first) not in self._file:
            self._file.close()
            raise FormatError(f"{path} has no sentence {first}: its keys are no numbers")

    def __len__(self) -> int:
        """Count the sentences."""
        return self._count

    def read(self, place: int) -> tuple[list[str] | None, Array]:
        """Give a sentence."""
        key = str(self._first + place)
        words = None if self._words is None else json.loads(self._words[key][()])
        return words, self._file[key][()]

    def n_words(self) -> int:
        """Count the words of all sentences."""
        keys = (str(self._first + place) for place in range(self._count))
        return sum(self._file[key].shape[-2] for key in keys)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class SafetensorsReader:
    """Slices of a shard; `safetensors_store.py` tells its layout."""

    def __init__(self, path: Path) -> None:
        """Open the file; where sentences begin is read."""
        self._file = cast(Any, safe_open(path, "numpy"))
        self._offsets: Array = self._file.get_tensor("offsets")
        vectors = self._file.get_slice("vectors")
        kind = {name: storage for storage, name in NAMES.items()}[vectors.get_dtype()]
        # Of a sentence without words; an empty slice at the end of a tensor is refused.
        self._nothing = np.zeros((0, *vectors.get_shape()[1:]), kind)

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self._offsets) - 1

    def read(self, place: int) -> tuple[list[str] | None, Array]:
        """Give a sentence."""
        start, end = (int(value) for value in self._offsets[place : place + 2])
        vectors, words = self._nothing, list[str]()
        if start < end:
            vectors = self._file.get_slice("vectors")[start:end]
            edges = self._file.get_slice("word_offsets")[start : end + 1].tolist()
            spelling = self._file.get_slice("spelling")[edges[0] : edges[-1]].tobytes()
            words = [
                spelling[low - edges[0] : high - edges[0]].decode("utf-8")
                for low, high in pairwise(edges)
            ]
        return words, vectors if vectors.ndim == 2 else vectors.transpose(1, 0, 2)

    def n_words(self) -> int:
        """Count the words of all sentences."""
        return int(self._offsets[-1])

    def close(self) -> None:
        """Let go of the file."""
        del self._file


class NpzReader:
    """Arrays of an npz, named by the number of the sentence."""

    def __init__(self, path: Path) -> None:
        """Open the file; its table of contents is read."""
        self._file = np.load(path)
        self._names = set(self._file.files)
        self._count = sum(not name.startswith("words/") for name in self._names)

    def __len__(self) -> int:
        """Count the sentences."""
        return self._count

    def read(self, place: int) -> tuple[list[str] | None, Array]:
        """Give a sentence."""
        name = f"words/{place}"
        words = json.loads(str(self._file[name])) if name in self._names else None
        return words, self._file[str(place)]

    def n_words(self) -> int:
        """Count the words of all sentences."""
        return sum(self._file[str(place)].shape[-2] for place in range(self._count))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
