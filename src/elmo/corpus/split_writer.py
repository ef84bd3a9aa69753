"""Writing of the shards of a split, and selection of held-out sentences."""

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.shards import Numbers, shard_paths, word_type

# Consecutive sentences that are held out together, because neighboring sentences are similar.
RANGE_SENTENCES = 100


class SplitWriter:
    """Writes the shards of one split; a shard ends with the sentence that reaches its size."""

    def __init__(
        self, folder: Path, split: str, known: NDArray[np.bool_], shard_words: int
    ) -> None:
        """Create a writer; `known` is whether each distinct word is in the vocabulary."""
        self.folder = folder
        self.split = split
        self.shard_words = shard_words
        self.n_shards = self.n_words = self.n_sentences = self.n_unknown = self.n_characters = 0
        self._known = known
        self._type = word_type(len(known))
        self._files: tuple[BinaryIO, BinaryIO] | None = None
        self._filled = 0

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def add(
        self, words: NDArray[np.uint32], lengths: NDArray[np.uint32], n_characters: int
    ) -> None:
        """Append sentences as concatenated word ids and lengths, and count their characters."""
        self.n_characters += n_characters
        self.n_unknown += len(words) - int(np.count_nonzero(self._known[words]))
        words = words.astype(self._type)
        ends = np.cumsum(lengths, dtype=np.int64)
        first = before = 0
        while first < len(ends):
            shard_end = before + self.shard_words - self._filled
            last = min(int(np.searchsorted(ends, shard_end)) + 1, len(ends))
            after = int(ends[last - 1])
            self._write(words[before:after], ends[first:last] - before)
            first, before = last, after

    def _write(self, words: NDArray[Any], ends: Numbers) -> None:
        if self._files is None:
            tokens, starts = shard_paths(self.folder, self.split, self.n_shards)
            self._files = tokens.open("wb"), starts.open("wb")
            self._files[1].write(np.zeros(1, dtype=np.int64).data)
            self.n_shards += 1
        self._files[0].write(words.data)
        self._files[1].write((ends + self._filled).data)
        self._filled += len(words)
        self.n_words += len(words)
        self.n_sentences += len(ends)
        if self._filled >= self.shard_words:
            self._close()

    def _close(self) -> None:
        for file in self._files or ():
            file.close()
        self._files = None
        self._filled = 0


def held_out_ranges(n_sentences: int, fraction: float) -> Numbers:
    """Choose a fraction of the sentences to hold out, spread evenly over the text.

    Returns ranges of sentence indices as (first, last + 1), (ranges, 2). If fewer than
    `RANGE_SENTENCES` sentences are held out, they are the last ones of the text. At least one
    sentence is left for training.
    """
    if not fraction or n_sentences < 2:
        return np.zeros((0, 2), dtype=np.int64)
    n_ranges = n_sentences // RANGE_SENTENCES
    if n_ranges < 2 or fraction * n_sentences < RANGE_SENTENCES:
        n_held = min(max(1, round(fraction * n_sentences)), n_sentences - 1)
        return np.array([[n_sentences - n_held, n_sentences]], dtype=np.int64)
    n_held = min(max(1, round(fraction * n_sentences / RANGE_SENTENCES)), n_ranges - 1)
    # One range in the middle of each of n equal parts of the text.
    first = (2 * np.arange(n_held, dtype=np.int64) + 1) * n_ranges // (2 * n_held) * RANGE_SENTENCES
    return np.stack([first, first + RANGE_SENTENCES], axis=1)


def is_held_out(ranges: Numbers, first: int, n_sentences: int) -> NDArray[np.bool_]:
    """Return whether each sentence of a consecutive range is held out, (n_sentences,)."""
    sentences = np.arange(first, first + n_sentences)
    # After an odd number of range bounds: inside a range.
    inside: NDArray[np.bool_] = np.searchsorted(ranges.reshape(-1), sentences, "right") % 2 == 1
    return inside
