"""Counting and numbering words in bounded memory.

Words are numbered as they are met. A dictionary that has grown to its limit is written to the disk
as a run, words in the order of their bytes, and begun anew. At the end the runs are read side by
side: equal words meet, their counts are added, and each gets one number; then words are ordered by
falling count. Nothing here depends on where a run ended.

A run has three files: `.words` (lines), `.order` (the number each word had in its dictionary) and
`.counts`; merging adds `.merged`, the number of each word among the words of all runs.
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

# What a word costs in a dictionary beside its string: entry, number, place in the sorted list.
ENTRY_BYTES = 120
# Bytes of words that are held while runs are merged, all runs together.
MERGE_BYTES = 2**22
MIN_RUN_BYTES = 2**13
# Bytes of words that are put in order at a time.
ORDER_BYTES = 2**20
MERGED = "merged"


class Dictionary(dict[str, int]):
    """Words by number, each numbered when it is first looked up."""

    n_bytes = 0

    def __missing__(self, word: str) -> int:
        """Number a word that is new."""
        number = self[word] = len(self)
        self.n_bytes += sys.getsizeof(word) + ENTRY_BYTES
        return number


class RunWriter:
    """Numbers and counts words; writes runs."""

    def __init__(self, folder: Path, name: str, limit: int) -> None:
        """Begin with an empty dictionary.

        Args:
            folder: where runs are written.
            name: what their names begin with.
            limit: bytes a dictionary may grow to.
        """
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
        """Name of the run that is being filled."""
        return f"{self.name}-{len(self.runs):05d}"

    def number(self, sentences: Iterable[Sequence[str]], n_words: int) -> Provisional:
        """Give the words of sentences as numbers of this run."""
        words = chain.from_iterable(sentences)
        return np.fromiter(map(self._words.__getitem__, words), dtype=np.uint32, count=n_words)

    def count(self, numbers: Provisional) -> None:
        """Count words that were numbered in this run."""
        counts = np.bincount(numbers, minlength=len(self._words))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def is_full(self) -> bool:
        """Whether it is time to write the run."""
        return self._words.n_bytes > self.limit

    def write(self) -> None:
        """Write the run and begin the next one."""
        # Strings compare by code point, which is the order of their UTF-8.
        ordered = sorted(self._words)
        order = np.fromiter(map(self._words.__getitem__, ordered), dtype=np.uint32)
        counts = np.zeros(len(ordered), dtype=np.int64)
        counts[: len(self._counts)] = self._counts
        stem = self.folder / self.run
        stem.with_suffix(".words").write_bytes("\n".join([*ordered, ""]).encode("utf-8"))
        # Where ndarray.tofile fails it does not say why; a full disk is to be told.
        stem.with_suffix(".order").write_bytes(order.data)
        stem.with_suffix(".counts").write_bytes(counts[order].data)
        stem.with_suffix(".merged").touch()
        self.runs.append(self.run)
        self._clear()


class RunReader:
    """Reads a run from its beginning to its end, holding little of it."""

    def __init__(self, stem: Path, chunk: int) -> None:
        """Begin at the beginning.

        Args:
            stem: path of the run without an ending.
            chunk: bytes of words to read at a time.
        """
        self.stem = stem
        self.chunk = chunk
        self.words: list[bytes] = []
        self._place = self._n_taken = 0

    def fill(self) -> bool:
        """Read on where no word is left; say whether there is one."""
        if self.words:
            return True
        # Opened again each time: there may be more runs than files may be open.
        with self.stem.with_suffix(".words").open("rb") as file:
            file.seek(self._place)
            data = file.read(self.chunk) + file.readline()
        self._place += len(data)
        self.words = data.split(b"\n")
        self.words.pop()
        return bool(self.words)

    def take(self, last: bytes) -> list[bytes]:
        """Take the words up to and including one."""
        cut = bisect_right(self.words, last)
        taken, self.words = self.words[:cut], self.words[cut:]
        return taken

    def take_counts(self, n_words: int) -> Numbers:
        """Take the counts of the words that were taken."""
        counts = np.fromfile(
            self.stem.with_suffix(".counts"), np.int64, n_words, offset=8 * self._n_taken
        )
        self._n_taken += n_words
        return counts


def merge_runs(folder: Path, runs: Sequence[str]) -> int:
    """Number the words of all runs by their bytes and add up their counts.

    Args:
        folder: where the runs are, and where the merged words and counts are written.
        runs: their names.

    Returns:
        How many distinct words there are.
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
            # No reader holds a smaller word than these that it has not read yet.
            last = min(reader.words[-1] for reader in readers)
            parts = [reader.take(last) for reader in readers]
            # Sorting is quick here: it finds the parts in order already, and merges them.
            union = dict.fromkeys(sorted(chain.from_iterable(parts)))
            numbers = dict(zip(union, count(n_words), strict=False))
            totals = np.zeros(len(union), dtype=np.int64)
            for reader, part in zip(readers, parts, strict=True):
                own = np.fromiter(map(numbers.__getitem__, part), dtype=np.uint32, count=len(part))
                totals[own - n_words] += reader.take_counts(len(part))
                with reader.stem.with_suffix(".merged").open("ab") as merged:
                    merged.write(own.data)
            words.write(b"\n".join([*union, b""]))
            counts.write(totals.data)
            n_words += len(union)
    return n_words


def merged_counts(folder: Path) -> Numbers:
    """Give the counts of the merged words, in the order of their bytes."""
    return np.fromfile((folder / MERGED).with_suffix(".counts"), np.int64)


def run_table(folder: Path, run: str, of_merged: NDArray[np.uint32]) -> Provisional:
    """Give what each number of a run becomes.

    Args:
        folder: where the runs are.
        run: its name.
        of_merged: what each merged number becomes.
    """
    stem = folder / run
    order = np.fromfile(stem.with_suffix(".order"), np.uint32)
    table = np.empty(len(order), dtype=np.uint32)
    table[order] = of_merged[np.fromfile(stem.with_suffix(".merged"), np.uint32)]
    return table


def write_table(work: Path, folder: Path, counts: Numbers) -> NDArray[np.uint32]:
    """Write the table of distinct words by falling count, then by their bytes.

    Args:
        work: where the merged words are.
        folder: where the table is written.
        counts: of the merged words.

    Returns:
        The number in the table of each merged word.
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
            # Where the bytes of these words stand among the merged ones.
            offsets = np.repeat(firsts[part] - starts[:-1][part], lengths[part])
            places = np.arange(starts[part.start], starts[part.stop]) + offsets
            file.write(data[places].data)
    rank = np.empty(len(order), dtype=np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank


def _parts(starts: Numbers) -> Iterator[slice]:
    """Cut a table of words into parts of about `ORDER_BYTES`, or of one long word."""
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + ORDER_BYTES, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last
