"""Readers for vector files in Parquet, HDF5, safetensors and npz format.

Each reader finds a sentence by row group, key or offset, without reading the whole file.
"""

import json
import zipfile
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from elmo.embed.host_arrays import HostArray
from elmo.embed.safetensors_writer import DTYPE_NAMES, POOLED
from elmo.errors import ConfigError, FormatError, MissingExtra
from elmo.formats.container import one_line

# Words (None if not stored), vectors, and values carried from the input by name.
Row = tuple[list[str] | None, HostArray, dict[str, str | None]]
# Errors that the libraries raise for damaged files; those of Arrow and json are ValueErrors.
READ_ERRORS = (
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
# Keys of an HDF5 file that are not sentences. Earlier versions wrote the words under a key.
OTHER_KEYS = ("sentence_to_index", "words")


class VectorReader(ABC):
    """Reads sentences by their index in the file."""

    _file: Any

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, index: int) -> Row:
        """Return the words (None if not stored), the vectors and the carried values."""

    def n_words(self) -> int:
        """Return the total number of words."""
        rows = (self.read(index) for index in range(len(self)))
        return sum(
            int(vectors.shape[-2]) if words is None else len(words) for words, vectors, _ in rows
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_reader(path: Path, first_sentence: int = 0, dim: int | None = None) -> VectorReader:
    """Open a vector file; its extension determines the format."""
    extension = path.suffix.lower()
    known = (".parquet", ".h5", ".hdf5", ".safetensors", ".npz")
    if extension not in known:
        raise ConfigError(
            f"Unknown file extension of {path.name}. Expected one of: {', '.join(known)}; or a job "
            "folder."
        )
    with read_errors_of(path):
        if extension == ".parquet":
            return ParquetReader(path, dim)
        if extension == ".safetensors":
            return SafetensorsReader(path)
        return NpzReader(path) if extension == ".npz" else HDF5Reader(path, first_sentence)


@contextmanager
def read_errors_of(path: Path) -> Iterator[None]:
    """Convert any error raised while reading to a `FormatError` that names the file."""
    try:
        yield
    except READ_ERRORS as error:
        raise FormatError(f"Cannot read vectors from {path}: {one_line(error)}") from None


class ParquetReader(VectorReader):
    """Reader for Parquet files; the last row group is cached to read consecutive sentences fast."""

    def __init__(self, path: Path, dim: int | None = None) -> None:
        """Open the file; `dim` is for sentences without words, which have no vectors."""
        try:
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("Reading Parquet", "parquet") from None
        self._file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        metadata = self._file.metadata
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts: list[int] = [0, *accumulate(counts)]
        self._cached_group: tuple[int, Any] | None = None
        self._dim = dim
        names = self._file.schema_arrow.names
        self._names = [name for name in names if name not in ("sentence", "words", "vectors")]
        self._is_flat = not _holds_lists(self._file.schema_arrow.field("vectors"))

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, index: int) -> Row:
        """Return the words and vectors of a sentence; only its row group is read."""
        group = bisect_right(self._starts, index) - 1
        table = self._read_group(group)
        row = index - self._starts[group]
        words: list[str] = table["words"][row].as_py()
        cells = {name: table[name][row].as_py() for name in self._names}
        # The number of a line is an integer, in files of earlier versions a string.
        values = {name: None if cell is None else str(cell) for name, cell in cells.items()}
        return words, self._vectors(table["vectors"].chunk(0).slice(row, 1)), values

    def _read_group(self, group: int) -> Any:
        if self._cached_group is None or self._cached_group[0] != group:
            names = ["words", "vectors", *self._names]
            table = self._file.read_row_group(group, names).combine_chunks()
            self._cached_group = (group, table)
        return self._cached_group[1]

    def _vectors(self, column: Any) -> HostArray:
        """Convert a row of nested lists to an array without creating a Python object per value."""
        inner = column.flatten()
        if self._is_flat:  # one vector per sentence
            vector: HostArray = inner.to_numpy()
            return vector
        n_layers = None
        if _holds_lists(inner):
            n_layers, inner = len(inner), inner.flatten()
        numbers: HostArray = inner.flatten().to_numpy()
        dim = len(numbers) // len(inner) if len(inner) else self._find_dim()
        shape = (len(inner),) if n_layers is None else (n_layers, len(inner) // n_layers)
        return numbers.reshape(*shape, dim)

    def _find_dim(self) -> int:
        """Return the dimension of the vectors, read from the first sentence with words."""
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
        """Return the total number of words."""
        import pyarrow.compute

        groups = range(len(self._starts) - 1)
        columns = (self._file.read_row_group(group, ["words"])["words"] for group in groups)
        lengths = (pyarrow.compute.sum(pyarrow.compute.list_value_length(c)) for c in columns)
        return sum(length.as_py() or 0 for length in lengths)

    def close(self) -> None:
        """Close the file."""
        self._cached_group = None
        super().close()


def _holds_lists(array: Any) -> bool:
    return str(array.type.value_type).startswith("list")


class HDF5Reader(VectorReader):
    """Reads HDF5 files with one dataset per sentence, by number, as in bilm-tf and AllenNLP."""

    def __init__(self, path: Path, first_sentence: int) -> None:
        self._file = h5py.File(path, "r")
        self._first_sentence = first_sentence
        self._words = self._file.get("words")
        self._count = len(self._file) - sum(name in self._file for name in OTHER_KEYS)
        if self._count and str(first_sentence) not in self._file:
            self._file.close()
            raise FormatError(
                f"{path} has no sentence {first_sentence}. Expected keys that are sentence numbers."
            )

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Row:
        """Return the words and vectors of a sentence."""
        key = str(self._first_sentence + index)
        dataset = self._file[key]
        text = dataset.attrs.get("words")
        if text is None and self._words is not None:
            text = self._words[key][()]
        words = None if text is None else json.loads(text)
        return words, dataset[()], json.loads(dataset.attrs.get("values", "{}"))


class SafetensorsReader(VectorReader):
    """Reader for safetensors shards; `safetensors_writer.py` documents the layout."""

    def __init__(self, path: Path) -> None:
        self._file = cast(Any, safe_open(path, "numpy"))
        self._offsets: NDArray[np.int64] = self._file.get_tensor("offsets")
        vectors = self._file.get_slice("vectors")
        dtype = {name: storage for storage, name in DTYPE_NAMES.items()}[vectors.get_dtype()]
        # For sentences without words: safetensors rejects an empty slice at the end of a tensor.
        self._no_vectors = np.zeros((0, *vectors.get_shape()[1:]), dtype)
        self._is_pooled = POOLED in (self._file.metadata() or {})
        self._value_offsets: NDArray[np.int64] | None = None
        if "value_offsets" in self._file.keys():
            self._value_offsets = self._file.get_tensor("value_offsets")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read(self, index: int) -> Row:
        """Return the words and vectors of a sentence."""
        start, end = (int(value) for value in self._offsets[index : index + 2])
        vectors, words = self._no_vectors, list[str]()
        if self._is_pooled:
            vectors = self._file.get_slice("vectors")[index : index + 1]
        if start < end:
            if not self._is_pooled:
                vectors = self._file.get_slice("vectors")[start:end]
            edges = self._file.get_slice("word_offsets")[start : end + 1].tolist()
            spelling = self._file.get_slice("spelling")[edges[0] : edges[-1]].tobytes()
            words = [
                spelling[low - edges[0] : high - edges[0]].decode("utf-8")
                for low, high in pairwise(edges)
            ]
        if self._is_pooled:
            return words, vectors[0], self._values(index)
        vectors = vectors if vectors.ndim == 2 else vectors.transpose(1, 0, 2)
        return words, vectors, self._values(index)

    def _values(self, index: int) -> dict[str, str | None]:
        if self._value_offsets is None:
            return {}
        start, end = (int(value) for value in self._value_offsets[index : index + 2])
        values: dict[str, str | None] = json.loads(
            self._file.get_slice("values")[start:end].tobytes()
        )
        return values

    def n_words(self) -> int:
        """Return the total number of words."""
        return int(self._offsets[-1])

    def close(self) -> None:
        """Close the file."""
        del self._file


class NpzReader(VectorReader):
    """Reader for npz files with one array per sentence, named by the sentence number."""

    def __init__(self, path: Path) -> None:
        self._file = np.load(path)
        self._names = set(self._file.files)
        self._count = sum(not name.startswith(("words/", "values/")) for name in self._names)

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Row:
        """Return the words and vectors of a sentence."""
        name = f"words/{index}"
        words = json.loads(str(self._file[name])) if name in self._names else None
        name = f"values/{index}"
        values = json.loads(str(self._file[name])) if name in self._names else {}
        return words, self._file[str(index)], values
