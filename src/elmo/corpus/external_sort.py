"""Word counting and id assignment in bounded memory, by external merge sort.

Words get provisional ids in the order of their first occurrence. When the dictionary reaches its
size limit, it is written to disk as a sorted run (by UTF-8 bytes), and a new dictionary is started.
At the end, all runs are merged: the counts of equal words are added, and each distinct word gets
one merged id. Finally, words are sorted by decreasing count. The result does not depend on where
runs end.

A run has three files: `.words` (one word per line), `.order` (the id of each word in the run's
dictionary) and `.counts`. Merging adds `.merged` (the merged id of each word).
"""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.shards import COUNTS, WORD_STARTS, WORDS, Numbers

Provisional = NDArray[np.uint32]

# Memory of a dictionary entry besides its string: hash table slot, number, slot in the sorted list.
ENTRY_BYTES = 120
# Bytes of words in memory while runs are merged, over all runs.
MERGE_BYTES = 2**22
MIN_RUN_BYTES = 2**13
# Bytes of words per block when the sorted table is written.
ORDER_BYTES = 2**20
MERGED = "merged"


class Dictionary(dict[str, int]):
    """Word ids; looking up a new word assigns it the next id."""

    n_bytes = 0

    def __missing__(self, word: str) -> int:
        """Assign the next id to a new word."""
        number = self[word] = len(self)
        self.n_bytes += sys.getsizeof(word) + ENTRY_BYTES
        return number


class RunWriter:
    """Assigns ids to words, counts them, and writes sorted runs."""

    def __init__(self, folder: Path, name: str, limit: int) -> None:
        """Start with an empty dictionary of at most `limit` bytes; runs are named `name`-N."""
        self.folder = folder
        self.name = name
        self.limit = limit
        self.runs: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self._words = Dictionary()
        self._counts: Numbers = np.zeros(0, dtype=np.int64)

    @property
    def run(self) -> str:
        """Name of the current run."""
        return f"{self.name}-{len(self.runs):05d}"

    def number(self, sentences: Iterable[Sequence[str]], n_words: int) -> Provisional:
        """Return the ids of all words of the sentences in the current run, (n_words,)."""
        words = chain.from_iterable(sentences)
        return np.fromiter(map(self._words.__getitem__, words), dtype=np.uint32, count=n_words)

    def count(self, numbers: Provisional) -> None:
        """Count words, given by their ids in the current run."""
        counts = np.bincount(numbers, minlength=len(self._words))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def is_full(self) -> bool:
        """Whether the dictionary has exceeded its limit and should be written."""
        return self._words.n_bytes > self.limit

    def write(self) -> None:
        """Write the current run and start the next one."""
        # Strings compare by code point, which equals the order of their UTF-8 bytes.
        ordered = sorted(self._words)
        order = np.fromiter(map(self._words.__getitem__, ordered), dtype=np.uint32)
        counts = np.zeros(len(ordered), dtype=np.int64)
        counts[: len(self._counts)] = self._counts
        stem = self.folder / self.run
        stem.with_suffix(".words").write_bytes("\n".join([*ordered, ""]).encode("utf-8"))
        # Not ndarray.tofile: its errors do not state the reason, such as a full disk.
        stem.with_suffix(".order").write_bytes(order.data)
        stem.with_suffix(".counts").write_bytes(counts[order].data)
        stem.with_suffix(".merged").touch()
        self.runs.append(self.run)
        self._clear()


class RunReader:
    """Reads a run sequentially, one chunk of words at a time."""

    def __init__(self, stem: Path, chunk: int) -> None:
        """Create a reader of `chunk` bytes at a time; `stem` is a path without extension."""
        self.stem = stem
        self.chunk = chunk
        self.words: list[bytes] = []
        self._file_offset = self._n_taken = 0

    def fill(self) -> bool:
        """Read the next chunk if no words are left, and return whether there are any words."""
        if self.words:
            return True
        # Reopened each time, because there can be more runs than the limit of open files.
        with self.stem.with_suffix(".words").open("rb") as file:
            file.seek(self._file_offset)
            data = file.read(self.chunk) + file.readline()
        self._file_offset += len(data)
        self.words = data.split(b"\n")
        self.words.pop()
        return bool(self.words)

    def take(self, last: bytes) -> list[bytes]:
        """Remove and return the words up to and including `last`."""
        cut = bisect_right(self.words, last)
        taken, self.words = self.words[:cut], self.words[cut:]
        return taken

    def take_counts(self, n_words: int) -> Numbers:
        """Read the counts of the next `n_words` words, (n_words,)."""
        counts = np.fromfile(
            self.stem.with_suffix(".counts"), np.int64, n_words, offset=8 * self._n_taken
        )
        self._n_taken += n_words
        return counts


def merge_runs(folder: Path, runs: Sequence[str]) -> int:
    """Merge runs: assign ids to all distinct words in byte order, and add up their counts.

    The merged words and counts are written to the folder. Returns the number of distinct words.
    """
    chunk = max(MIN_RUN_BYTES, MERGE_BYTES // max(1, len(runs)))
    readers = [RunReader(folder / run, chunk) for run in runs]
    n_words = 0
    stem = folder / MERGED
    with (
        stem.with_suffix(".words").open("wb") as words,
        stem.with_suffix(".counts").open("wb") as counts,
    ):
        while readers := [reader for reader in readers if reader.fill()]:
            # Every reader has all its words up to this one in memory.
            last = min(reader.words[-1] for reader in readers)
            parts = [reader.take(last) for reader in readers]
            # The parts are already sorted, so that Timsort merges them in linear time.
            union = dict.fromkeys(sorted(chain.from_iterable(parts)))
            numbers = dict(zip(union, count(n_words), strict=False))
            totals = np.zeros(len(union), dtype=np.int64)
            for reader, part in zip(readers, parts, strict=True):
                ids = np.fromiter(map(numbers.__getitem__, part), dtype=np.uint32, count=len(part))
                totals[ids - n_words] += reader.take_counts(len(part))
                with reader.stem.with_suffix(".merged").open("ab") as merged:
                    merged.write(ids.data)
            words.write(b"\n".join([*union, b""]))
            counts.write(totals.data)
            n_words += len(union)
    return n_words


def merged_counts(folder: Path) -> Numbers:
    """Return the count of each merged word, in byte order of the words, (words,)."""
    return np.fromfile((folder / MERGED).with_suffix(".counts"), np.int64)


def run_table(folder: Path, run: str, of_merged: NDArray[np.uint32]) -> Provisional:
    """Return a table that maps word ids of a run to final word ids, (words of the run,).

    `of_merged` is the final id of each merged word, (words,).
    """
    stem = folder / run
    order = np.fromfile(stem.with_suffix(".order"), np.uint32)
    table = np.empty(len(order), dtype=np.uint32)
    table[order] = of_merged[np.fromfile(stem.with_suffix(".merged"), np.uint32)]
    return table


def write_table(work: Path, folder: Path, counts: Numbers) -> NDArray[np.uint32]:
    """Write the table of distinct words, sorted by decreasing count, then by UTF-8 bytes.

    `work` has the merged words with their counts. Returns the row of each of them, (words,).
    """
    order = np.argsort(-counts, kind="stable")
    (folder / COUNTS).write_bytes(counts[order].data)
    data = np.fromfile((work / MERGED).with_suffix(".words"), np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    lengths = np.diff(ends, prepend=-1)[order] - 1
    firsts = ends[order] - lengths
    starts = np.concatenate([[0], np.cumsum(lengths)])
    (folder / WORD_STARTS).write_bytes(starts.data)
    with (folder / WORDS).open("wb") as file:
        for part in _parts(starts):
            # Indices of the bytes of these words among the merged ones.
            offsets = np.repeat(firsts[part] - starts[:-1][part], lengths[part])
            indices = np.arange(starts[part.start], starts[part.stop]) + offsets
            file.write(data[indices].data)
    rank = np.empty(len(order), dtype=np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank


def _parts(starts: Numbers) -> Iterator[slice]:
    """Yield slices of table rows whose words have at most `ORDER_BYTES`, or one longer word."""
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + ORDER_BYTES, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last
