"""Writers for vector files in HDF5 (with the layout of AllenNLP), Parquet and npz format.

A file contains either a whole text or one shard of a job. Each writer receives one sentence at a
time, so memory does not grow with the file, with two exceptions: `sentence_to_index` in HDF5, which
is a single string in AllenNLP's layout, and the table of contents of an npz file, about 400 bytes
per sentence.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.embed.host_arrays import HostArray
from elmo.embed.parquet_writer import ParquetWriter, is_foreign_table
from elmo.embed.safetensors_writer import SafetensorsWriter
from elmo.errors import ConfigError, OutputError, shortened
from elmo.files import atomic_path, clear_partials_of
from elmo.formats.hdf5 import HDF5File

# Values carried from the input to the output, by name.
Values = Mapping[str, str | None]
NO_VALUES: Values = MappingProxyType({})

# Maximum number of characters in sentence_to_index, which is kept in memory.
MAX_INDEX_CHARACTERS = 2**28
INDEX_TOO_LONG = (
    "The text is too long for the sentence_to_index of HDF5, which is kept in memory. Use "
    "--forget-sentences, or write Parquet."
)


class VectorWriter(Protocol):
    """Interface for writing sentences in order."""

    def write(self, line: str, words: Sequence[str], vectors: HostArray, values: Values) -> None:
        """Add a sentence: the input line, its words, their vectors and the carried values."""

    def close(self) -> None:
        """Complete and close the file."""


class HDF5Writer:
    """Writer for HDF5 files with one dataset per sentence, as in bilm-tf and AllenNLP since 0.6.

    Each dataset is named by its sentence number, starting at "0". As in AllenNLP,
    `sentence_to_index` is a JSON object that maps each line to its key; repeated lines map to their
    last occurrence. The words are stored as JSON in the attribute `words` of each dataset, and
    carried values in the attribute `values`, so that the file has the same keys as one written by
    AllenNLP.
    """

    def __init__(
        self,
        path: Path,
        *,
        index_sentences: bool,
        store_words: bool = True,
        sentence_keys: bool = False,
        first_sentence: int = 0,
    ) -> None:
        """Open the file; `index_sentences` writes `sentence_to_index`.

        AllenNLP does not store words. It can use the lines as dataset keys; call
        `check_sentence_keys` first.
        """
        self.sentence_keys = sentence_keys
        self._file = HDF5File(path)
        self.file = self._file.content
        self.index: dict[str, str] | None = {} if index_sentences else None
        self.store_words = store_words
        self.count = first_sentence
        self.n_characters = 0

    def write(
        self,
        line: str,
        words: Sequence[str],
        vectors: HostArray | NDArray[np.float64],
        values: Values = NO_VALUES,
    ) -> None:
        """Add a sentence."""
        key = line.strip() if self.sentence_keys else str(self.count)
        dataset = self.file.create_dataset(key, data=vectors)
        if self.store_words:
            dataset.attrs["words"] = json.dumps(list(words))
        if values:
            dataset.attrs["values"] = json.dumps(values)
        self._file.check()
        if self.index is not None:
            self.index[line.strip()] = key
            self.n_characters += len(line)
            if self.n_characters > MAX_INDEX_CHARACTERS:
                raise OutputError(INDEX_TOO_LONG)
        self.count += 1

    def close(self) -> None:
        """Complete and close the file."""
        if self.index is not None:
            import h5py  # a slow import that other formats do not need

            text = h5py.string_dtype(encoding="utf-8")
            dataset = self.file.create_dataset("sentence_to_index", (1,), dtype=text)
            dataset[0] = json.dumps(self.index)
        self._file.close()


def check_sentence_keys(lines: Iterable[str]) -> None:
    """Check that the lines can be used as dataset keys in one HDF5 file.

    HDF5 interprets a key as a path: all components separated by `/`, except for the last one, are
    groups. Empty components and `.` are ignored.
    """
    datasets: set[tuple[str, ...]] = set()
    groups: set[tuple[str, ...]] = set()
    for line in lines:
        key = line.strip()
        path = tuple(part for part in key.split("/") if part not in ("", "."))
        parents = {path[:length] for length in range(len(path))}
        groups |= parents
        if path in datasets:
            raise OutputError(
                f"The sentence {shortened(key, 60)!r} occurs twice, but keys must be unique. Do "
                "not use sentences as keys."
            )
        if not path or "\0" in key or path in groups or parents & datasets:
            raise OutputError(
                f"The sentence {shortened(key, 60)!r} cannot be a key. HDF5 reads a key as a path "
                "with / between its parts, and this one is empty, contains NUL, or conflicts with "
                "another sentence. Do not use sentences as keys."
            )
        datasets.add(path)


class NpzWriter:
    """Writer for npz files with one array per sentence, named by the sentence number.

    The words are stored as JSON under `words/`, and carried values under `values/`.
    """

    def __init__(self, path: Path) -> None:
        self.file = zipfile.ZipFile(path, "w", allowZip64=True)
        self.count = 0

    def write(self, line: str, words: Sequence[str], vectors: HostArray, values: Values) -> None:
        """Add a sentence."""
        self._add(str(self.count), vectors)
        if values:
            self._add(f"values/{self.count}", np.array(json.dumps(values)))
        self._add(f"words/{self.count}", np.array(json.dumps(list(words))))
        self.count += 1

    def _add(self, name: str, array: NDArray[np.generic]) -> None:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        # A fixed date, so that equal vectors result in equal files.
        member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
        self.file.writestr(member, buffer.getvalue())

    def close(self) -> None:
        """Complete and close the file."""
        self.file.close()


EXTENSIONS = (".h5", ".hdf5", ".parquet", ".npz")


@contextmanager
def open_vector_file(
    path: Path,
    *,
    all_layers: bool,
    index_sentences: bool,
    pooled: bool = False,
    names: Sequence[str] = (),
) -> Iterator[VectorWriter]:
    """Open a writer for a file, which appears under its final name only once it is complete.

    The extension determines the format. `index_sentences` writes `sentence_to_index` (HDF5 only);
    `open_shard` documents the other arguments.
    """
    makers: dict[str, Callable[[Path], VectorWriter]] = {
        ".parquet": lambda partial: ParquetWriter(
            partial, all_layers=all_layers, pooled=pooled, names=names
        ),
        ".npz": NpzWriter,
    }
    for name in (".h5", ".hdf5"):
        makers[name] = lambda partial: HDF5Writer(partial, index_sentences=index_sentences)
    extension = path.suffix.lower()
    if extension not in makers:
        raise ConfigError(
            f"Unknown file extension of {path.name}. Expected one of: {', '.join(EXTENSIONS)}. The "
            "name of a folder of shards has no extension, or ends with /."
        )
    if extension == ".parquet" and path.is_file() and is_foreign_table(path):
        raise OutputError(
            f"{path} exists and was not written by elmo embed. Remove it, or choose another output."
        )
    clear_partials_of(path)
    with _opened_writer(path, makers[extension]) as writer:
        yield writer


@contextmanager
def open_shard(
    path: Path,
    *,
    all_layers: bool,
    storage: str,
    first_sentence: int,
    pooled: bool = False,
    names: Sequence[str] = (),
    line_is_integer: bool = True,
    shape: tuple[int, ...] = (0,),
) -> Iterator[VectorWriter]:
    """Open a writer for a shard, which appears under its final name only once it is complete.

    Args:
        path: File to write: .parquet, .h5 or .safetensors.
        all_layers: Whether vectors have shape (layers, words, dim) instead of (words, dim).
        storage: Dtype of the stored vectors, float16 or float32.
        first_sentence: Number of the first sentence.
        pooled: Whether there is one vector per sentence, of shape (dim,) or (layers, dim).
        names: Names of the values carried with each sentence.
        line_is_integer: Whether the value `line` is an integer in Parquet instead of a string.
        shape: Shape of the vectors of one word, in case that there are no sentences.
    """

    def make(partial: Path) -> VectorWriter:
        if path.suffix == ".parquet":
            return ParquetWriter(
                partial,
                all_layers=all_layers,
                storage=storage,
                first_sentence=first_sentence,
                is_shard=True,
                pooled=pooled,
                names=names,
                line_is_integer=line_is_integer,
            )
        if path.suffix == ".safetensors":
            return SafetensorsWriter(
                partial, all_layers=all_layers, storage=storage, pooled=pooled, shape=shape
            )
        return HDF5Writer(partial, index_sentences=False, first_sentence=first_sentence)

    with _opened_writer(path, make) as writer:
        yield writer


@contextmanager
def _opened_writer(path: Path, make: Callable[[Path], VectorWriter]) -> Iterator[VectorWriter]:
    with atomic_path(path) as partial:
        writer = make(partial)
        try:
            yield writer
        except BaseException:
            # Closing also fails if the disk is full.
            with suppress(Exception):
                writer.close()
            raise
        writer.close()
