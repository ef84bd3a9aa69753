"""Vectors that were written, looked up by the number of their sentence."""

import operator
import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from elmo.embed.job_folder import SHARDS, JobManifest, PlannedShard, read_manifest, sha256_of
from elmo.embed.vector_readers import VectorReader, naming, open_reader
from elmo.errors import ConfigError, FormatError

# Shards that stay open; the one used longest ago is closed for another.
MAX_OPEN = 8


@dataclass(frozen=True, eq=False)
class SentenceVectors:
    """One sentence.

    Attributes:
        words: None where they were not stored.
        vectors: (words, dim), or (layers, words, dim) where all layers were stored.
    """

    words: list[str] | None
    vectors: NDArray[Any]


def open_embeddings(path: str | Path, *, dtype: str | None = "float32") -> "Embeddings":
    """Open what `elmo embed` wrote: the folder of a job, or a .parquet, .h5, .hdf5 or .npz file.

    Args:
        path: file or folder.
        dtype: type of the numbers that are given; None for that of the file.
    """
    return Embeddings(Path(path), dtype)


class Embeddings:
    """Sentences by number, read when they are asked for; of a file only what they need.

    Files are opened again in a process that was forked, so workers of a data loader may share one.
    """

    def __init__(self, path: Path, dtype: str | None) -> None:
        """Open; see `open_embeddings`."""
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
        """Count the sentences."""
        return self._length

    @overload
    def __getitem__(self, number: int) -> SentenceVectors: ...

    @overload
    def __getitem__(self, number: slice) -> list[SentenceVectors]: ...

    def __getitem__(self, number: int | slice) -> SentenceVectors | list[SentenceVectors]:
        """Give a sentence by its number, or several; numbers below zero count from the end."""
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        place = operator.index(number)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no sentence {place}: {self.path} has {len(self)}")
        place %= len(self)
        shard = bisect_right(self._starts, place) - 1
        reader = self._reader(shard)
        with naming(self._path(shard)):
            words, vectors = reader.read(place - self._starts[shard])
        return SentenceVectors(words, vectors if self._dtype is None else self._given(vectors))

    def _given(self, vectors: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(invalid="ignore"):  # a damaged shard may hold what is no number
            return vectors.astype(self._dtype, copy=False)

    def __iter__(self) -> Iterator[SentenceVectors]:
        """Give all sentences in order."""
        return (self[number] for number in range(len(self)))

    def __enter__(self) -> "Embeddings":
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the files."""
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another process without open files."""
        return {**self.__dict__, "_open": OrderedDict()}

    def close(self) -> None:
        """Close the files; they are opened again where they are needed."""
        while self._open:
            self._open.popitem()[1].close()

    def verify(self) -> int:
        """Compare every shard with its size, its checksum and its counts; give how many there are.

        Raises:
            FormatError: names the first shard that is not as it was written.
        """
        if self.manifest is None:
            raise ConfigError(f"{self.path} is one file without checksums; a job's folder has them")
        n_sentences = 0
        for number, shard in enumerate(self.manifest.shards):
            if shard.first_sentence != n_sentences:
                raise FormatError(
                    f"{self.path}: {shard.name} begins with sentence {shard.first_sentence}, "
                    f"expected {n_sentences}"
                )
            self._verify(number, shard)
            n_sentences += shard.n_sentences
        if n_sentences != len(self):
            raise FormatError(f"{self.path} has {n_sentences} sentences, expected {len(self)}")
        return len(self.manifest.shards)

    def _verify(self, number: int, shard: PlannedShard) -> None:
        path = self._path(number)
        checks: list[tuple[str, object, Callable[[], object]]] = [
            ("bytes", shard.n_bytes, lambda: path.stat().st_size if path.exists() else 0),
            ("SHA-256", shard.sha256, lambda: sha256_of(path)),
            ("sentences", shard.n_sentences, lambda: len(self._reader(number))),
            ("words", shard.n_words, lambda: self._reader(number).n_words()),
        ]
        for what, expected, find in checks:
            found = find()
            if found != expected:
                raise FormatError(
                    f"{path} is damaged: {what} {found}, expected {expected}; delete it "
                    "and say the same elmo embed again"
                )

    def _path(self, number: int) -> Path:
        if self.manifest is None:
            return self.path
        return self.path / SHARDS / self.manifest.shards[number].name

    def _reader(self, number: int) -> VectorReader:
        if self._process != os.getpid():
            # Handles of the parent: to close them would close them there too.
            self._open, self._process = OrderedDict(), os.getpid()
        if number not in self._open:
            first = 0 if self.manifest is None else self.manifest.shards[number].first_sentence
            dim = None if self.manifest is None else self.manifest.dim
            self._open[number] = open_reader(self._path(number), first, dim)
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(number)
        return self._open[number]
