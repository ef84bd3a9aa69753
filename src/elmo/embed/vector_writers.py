"""Files of vectors, written sentence by sentence: HDF5 in the older programs' layout, Parquet, npz.

A file is a whole text, or a shard of many. Each writer sees one sentence at a time, so memory does
not grow with the file, but for two things: `sentence_to_index` in HDF5, which AllenNLP's layout
wants as a single string, and the table of contents of an npz, some 400 bytes a sentence.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.embed.parquet_writer import ParquetWriter
from elmo.embed.safetensors_writer import SafetensorsWriter
from elmo.errors import ConfigError, OutputError
from elmo.files import atomic_path, clear_partials_of
from elmo.formats.hdf5 import HDF5File

Array = NDArray[np.floating[Any]]

# sentence_to_index holds the whole text in memory; beyond this many characters it is refused.
MAX_INDEX_CHARACTERS = 2**28
TOO_LONG = (
    "the text is too long to be held as sentence_to_index: add --forget-sentences, or write Parquet"
)


class VectorWriter(Protocol):
    """Takes sentences in order."""

    def write(self, line: str, words: Sequence[str], vectors: Array) -> None:
        """Add a sentence: its line as read, its words, their vectors."""

    def close(self) -> None:
        """Finish the file."""


class HDF5Writer:
    """One dataset a sentence, keyed by its number from "0", as bilm-tf and AllenNLP 0.6 and later.

    AllenNLP adds `sentence_to_index`, a JSON object from each line to its number; of equal lines
    the last number counts. Words the model split itself are kept as JSON under `words/`.
    """

    def __init__(
        self,
        path: Path,
        *,
        index_sentences: bool,
        store_words: bool = False,
        sentence_keys: bool = False,
        first: int = 0,
    ) -> None:
        """Open the file.

        Args:
            path: file to write.
            index_sentences: write `sentence_to_index`.
            store_words: write `words/`.
            sentence_keys: key a dataset by its line, as AllenNLP did on request; the lines must
                have passed `check_sentence_keys`.
            first: number of the first sentence.
        """
        self.sentence_keys = sentence_keys
        self._file = HDF5File(path)
        self.file = self._file.content
        self.index: dict[str, str] | None = {} if index_sentences else None
        self.store_words = store_words
        self.count = first
        self.n_characters = 0

    def write(self, line: str, words: Sequence[str], vectors: Array) -> None:
        """Add a sentence."""
        key = line.strip() if self.sentence_keys else str(self.count)
        self.file.create_dataset(key, data=vectors)
        self._file.check()
        if self.store_words:
            self.file.create_dataset(f"words/{key}", data=json.dumps(list(words)))
        if self.index is not None:
            self.index[line.strip()] = key
            self.n_characters += len(line)
            if self.n_characters > MAX_INDEX_CHARACTERS:
                raise OutputError(TOO_LONG)
        self.count += 1

    def close(self) -> None:
        """Finish the file."""
        if self.index is not None:
            import h5py  # a slow import that other formats do without

            text = h5py.string_dtype(encoding="utf-8")
            dataset = self.file.create_dataset("sentence_to_index", (1,), dtype=text)
            dataset[0] = json.dumps(self.index)
        self._file.close()


def check_sentence_keys(lines: Iterable[str]) -> None:
    """Refuse lines that cannot be the keys of one HDF5 file, where a key is a path.

    Its parts, apart by `/`, are groups but for the last; empty parts and `.` do not count.

    Args:
        lines: the sentences.
    """
    datasets: set[tuple[str, ...]] = set()
    groups: set[tuple[str, ...]] = set()
    for line in lines:
        key = line.strip()
        path = tuple(part for part in key.split("/") if part not in ("", "."))
        above = {path[:length] for length in range(len(path))}
        groups |= above
        if path in datasets:
            raise OutputError(f"the sentence {key[:60]!r} stands twice and cannot be a key twice")
        if not path or "\0" in key or path in groups or above & datasets:
            raise OutputError(
                f"the sentence {key[:60]!r} cannot be a key: HDF5 reads a key as a path, with / "
                "between its parts, and this one is empty, holds NUL, or meets that of another "
                "sentence; leave out the sentence keys"
            )
        datasets.add(path)


class NpzWriter:
    """One array a sentence, named by its number, in a file `numpy.load` reads."""

    def __init__(self, path: Path, *, store_words: bool) -> None:
        """Open the file.

        Args:
            path: file to write.
            store_words: write the words as JSON under `words/`.
        """
        self.file = zipfile.ZipFile(path, "w", allowZip64=True)
        self.store_words = store_words
        self.count = 0

    def write(self, line: str, words: Sequence[str], vectors: Array) -> None:
        """Add a sentence."""
        self._add(str(self.count), vectors)
        if self.store_words:
            self._add(f"words/{self.count}", np.array(json.dumps(list(words))))
        self.count += 1

    def _add(self, name: str, array: NDArray[Any]) -> None:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        # A fixed date: the same vectors make the same file.
        member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
        self.file.writestr(member, buffer.getvalue())

    def close(self) -> None:
        """Finish the file."""
        self.file.close()


ENDINGS = (".h5", ".hdf5", ".parquet", ".npz")


@contextmanager
def open_store(
    path: Path, *, all_layers: bool, index_sentences: bool, store_words: bool
) -> Iterator[VectorWriter]:
    """Open a writer by the ending of a file name; an unfinished file is never seen under it.

    Args:
        path: file to write.
        all_layers: whether vectors are (layers, words, dim).
        index_sentences: HDF5: write `sentence_to_index`.
        store_words: HDF5 and npz: write the words too; Parquet always does.
    """
    makers: dict[str, Callable[[Path], VectorWriter]] = {
        ".parquet": lambda partial: ParquetWriter(partial, all_layers=all_layers),
        ".npz": lambda partial: NpzWriter(partial, store_words=store_words),
    }
    for name in (".h5", ".hdf5"):
        makers[name] = lambda partial: HDF5Writer(
            partial, index_sentences=index_sentences, store_words=store_words
        )
    ending = path.suffix.lower()
    if ending not in makers:
        raise ConfigError(
            f"the ending of {path.name} is no known format; expected {', '.join(ENDINGS)}. A "
            "folder of shards is named without an ending, or with / at its end"
        )
    clear_partials_of(path)
    with _writing(path, makers[ending]) as writer:
        yield writer


@contextmanager
def open_shard(path: Path, *, all_layers: bool, storage: str, first: int) -> Iterator[VectorWriter]:
    """Open a writer of a shard, words and all; an unfinished file is never seen under its name.

    Args:
        path: file to write: .parquet, .h5 or .safetensors.
        all_layers: whether vectors are (layers, words, dim).
        storage: type of the numbers, float16 or float32.
        first: number of the first sentence.
    """

    def make(partial: Path) -> VectorWriter:
        if path.suffix == ".parquet":
            return ParquetWriter(
                partial, all_layers=all_layers, storage=storage, first=first, is_shard=True
            )
        if path.suffix == ".safetensors":
            return SafetensorsWriter(partial, all_layers=all_layers, storage=storage)
        return HDF5Writer(partial, index_sentences=False, store_words=True, first=first)

    with _writing(path, make) as writer:
        yield writer


@contextmanager
def _writing(path: Path, make: Callable[[Path], VectorWriter]) -> Iterator[VectorWriter]:
    with atomic_path(path) as partial:
        writer = make(partial)
        try:
            yield writer
        except BaseException:
            _abandon(writer)
            raise
        writer.close()


def _abandon(writer: VectorWriter) -> None:
    """Close the file of a run that failed; on a full disk closing fails too, and nobody minds."""
    try:
        writer.close()
    except Exception:
        pass
