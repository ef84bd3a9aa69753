"""Random access to the sentences in a vector file or in a folder of shards."""

import operator
import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import numpy as np

from elmo.embed.host_arrays import HostArray
from elmo.embed.job_folder import SHARDS, read_manifest, sha256_of
from elmo.embed.job_records import FinishedShard, JobManifest
from elmo.embed.vector_readers import VectorReader, open_reader, read_errors_of
from elmo.errors import ConfigError, FormatError, shortened
from elmo.progress import format_count

# Number of shards kept open; the least recently used one is closed to open another.
MAX_OPEN = 8


@dataclass(frozen=True, eq=False, repr=False)
class SentenceVectors:
    """Words and vectors of one sentence.

    Attributes:
        words: Words of the sentence; None if the file does not store them.
        vectors: Word vectors of shape (words, dim), or (layers, words, dim) if all layers are
            stored. If they are pooled, of shape (dim,) or (layers, dim).
        values: Values carried from the input by name: the columns of --columns; `id` with
            --id-column; and `line`, the number of the line or record, with --sentences split.
    """

    words: list[str] | None
    vectors: HostArray
    values: dict[str, str | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        words = "" if self.words is None else f"words={shortened(self.words, 60)}, "
        values = f", values={shortened(self.values, 60)}" if self.values else ""
        shape = f"array of shape {self.vectors.shape} and dtype {self.vectors.dtype}"
        return f"SentenceVectors({words}vectors={shape}{values})"

    @property
    def id(self) -> str | None:
        """The id of the record; None without --id-column."""
        return self.values.get("id")

    @property
    def line(self) -> int | None:
        """The number of the line or record, from 1; None without --sentences split."""
        line = self.values.get("line")
        return None if line is None else int(line)

    @property
    def columns(self) -> dict[str, str | None]:
        """The values of the carried columns."""
        return {name: value for name, value in self.values.items() if name not in ("id", "line")}


def open_embeddings(path: str | Path, *, dtype: str | None = "float32") -> "Embeddings":
    """Open the output of `elmo embed`: a job folder, or a .parquet, .h5, .hdf5 or .npz file.

    Args:
        path: Vector file or job folder.
        dtype: Dtype of the returned vectors; None uses the dtype in which they are stored.
    """
    return Embeddings(Path(path), dtype)


class Embeddings:
    """Sequence of embedded sentences that are read from disk on access.

    Files are reopened after a fork, so the worker processes of a data loader can share an instance.
    """

    def __init__(self, path: Path, dtype: str | None) -> None:
        """Open a file or folder; see `open_embeddings`."""
        if not os.path.exists(path):
            raise FormatError(f"The file or folder {path} does not exist.")
        self.path = path
        self._dtype = None if dtype is None else np.dtype(dtype)
        self.manifest: JobManifest | None = read_manifest(path) if path.is_dir() else None
        self._open: OrderedDict[int, VectorReader] = OrderedDict()
        self._process = os.getpid()
        if self.manifest is None:
            self._starts = [0]
            self._length = len(self._reader(0))
        else:
            self._starts = [shard.first_sentence for shard in self.manifest.shards]
            self._length = self.manifest.n_sentences

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Embeddings({str(self.path)!r}, {format_count(len(self), 'sentence')})"

    @overload
    def __getitem__(self, number: int) -> SentenceVectors: ...

    @overload
    def __getitem__(self, number: slice) -> list[SentenceVectors]: ...

    def __getitem__(self, number: int | slice) -> SentenceVectors | list[SentenceVectors]:
        """Return one sentence, or a list for a slice; negative indices count from the end."""
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        try:
            index = operator.index(number)
        except TypeError:
            raise TypeError(
                "Sentences are looked up by number, such as embeddings[0], or by slice (got "
                f"{shortened(repr(number), 60)} of type {type(number).__name__})."
            ) from None
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"Sentence {index} is out of range: {self.path} has {len(self)} sentences."
            )
        index %= len(self)
        shard = bisect_right(self._starts, index) - 1
        reader = self._reader(shard)
        with read_errors_of(self._path(shard)):
            words, vectors, values = reader.read(index - self._starts[shard])
        vectors = vectors if self._dtype is None else self._convert(vectors)
        return SentenceVectors(words, vectors, values)

    def _convert(self, vectors: HostArray) -> HostArray:
        with np.errstate(invalid="ignore"):  # a damaged shard can hold NaN
            return vectors.astype(self._dtype, copy=False)

    def __iter__(self) -> Iterator[SentenceVectors]:
        return (self[number] for number in range(len(self)))

    def __enter__(self) -> "Embeddings":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without open files."""
        return {**self.__dict__, "_open": OrderedDict()}

    def close(self) -> None:
        """Close the files; the next access reopens them."""
        while self._open:
            self._open.popitem()[1].close()

    def verify(self) -> int:
        """Check the size, checksum and counts of every shard, and return the number of shards.

        Raises:
            FormatError: A shard does not match the manifest; the message names the first such
                shard.
        """
        if self.manifest is None:
            raise ConfigError(
                f"{self.path} is a single file without checksums. Only a job folder can be "
                "verified."
            )
        n_sentences = 0
        for number, shard in enumerate(self.manifest.shards):
            if shard.first_sentence != n_sentences:
                raise FormatError(
                    f"{self.path}: {shard.name} begins with sentence {shard.first_sentence}, "
                    f"expected {n_sentences}."
                )
            self._verify_shard(number, shard)
            n_sentences += shard.n_sentences
        if n_sentences != len(self):
            raise FormatError(f"{self.path} has {n_sentences} sentences, expected {len(self)}.")
        return len(self.manifest.shards)

    def _verify_shard(self, number: int, shard: FinishedShard) -> None:
        path = self._path(number)
        checks: list[tuple[str, object, Callable[[], object]]] = [
            ("bytes", shard.n_bytes, lambda: path.stat().st_size if path.exists() else 0),
            ("SHA-256", shard.sha256, lambda: sha256_of(path)),
            ("sentences", shard.n_sentences, lambda: len(self._reader(number))),
            ("words", shard.n_words, lambda: self._reader(number).n_words()),
        ]
        for quantity, expected, measure in checks:
            actual = measure()
            if actual != expected:
                raise FormatError(
                    f"{path} is damaged: {quantity} {actual}, expected {expected}. Delete the "
                    "shard and run the same elmo embed command again."
                )

    def _path(self, number: int) -> Path:
        if self.manifest is None:
            return self.path
        return self.path / SHARDS / self.manifest.shards[number].name

    def _reader(self, number: int) -> VectorReader:
        if self._process != os.getpid():
            # The handles belong to the parent: closing them here would close them there too.
            self._open, self._process = OrderedDict(), os.getpid()
        if number not in self._open:
            first = 0 if self.manifest is None else self.manifest.shards[number].first_sentence
            dim = None if self.manifest is None else self.manifest.dim
            self._open[number] = open_reader(self._path(number), first, dim)
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(number)
        return self._open[number]
