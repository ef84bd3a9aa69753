"""The shards of a corpus, written sentence by sentence; and which sentences are held out."""

from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.shards import Numbers, shard_paths, word_type

# Sentences that are held out together: neighbours in a text are alike.
STRETCH = 100


class SplitWriter:
    """Writes one split; a shard ends with the sentence that fills it."""

    def __init__(
        self, folder: Path, split: str, known: NDArray[np.bool_], shard_words: int
    ) -> None:
        """Begin without a file.

        Args:
            folder: of the corpus.
            split: its name.
            known: whether each distinct word is in the vocabulary.
            shard_words: running words of a shard.
        """
        self.folder = folder
        self.split = split
        self.shard_words = shard_words
        self.n_shards = self.n_words = self.n_sentences = self.n_unknown = 0
        self._known = known
        self._type = word_type(len(known))
        self._files: tuple[BinaryIO, BinaryIO] | None = None
        self._filled = 0

    def __enter__(self) -> "SplitWriter":
        """Give the writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the last shard."""
        self._close()

    def add(self, words: NDArray[np.uint32], lengths: NDArray[Any]) -> None:
        """Write sentences.

        Args:
            words: their words end to end.
            lengths: words of each.
        """
        self.n_unknown += len(words) - int(np.count_nonzero(self._known[words]))
        words = words.astype(self._type)
        ends = np.cumsum(lengths, dtype=np.int64)
        first = before = 0
        while first < len(ends):
            filling = before + self.shard_words - self._filled
            last = min(int(np.searchsorted(ends, filling)) + 1, len(ends))
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


def held_out(n_sentences: int, share: float) -> Numbers:
    """Choose the sentences that are kept for validation, evenly over a text.

    Args:
        n_sentences: of the text.
        share: of them to hold out.

    Returns:
        Stretches as (first, after the last), (stretches, 2). Where the share is less than one
        stretch they are the last sentences; one sentence is always left for training.
    """
    if not share or n_sentences < 2:
        return np.zeros((0, 2), dtype=np.int64)
    n_stretches = n_sentences // STRETCH
    if n_stretches < 2 or share * n_sentences < STRETCH:
        n_held = min(max(1, round(share * n_sentences)), n_sentences - 1)
        return np.array([[n_sentences - n_held, n_sentences]], dtype=np.int64)
    n_held = min(max(1, round(share * n_sentences / STRETCH)), n_stretches - 1)
    # The middle of each of n equal parts of the text.
    first = (2 * np.arange(n_held, dtype=np.int64) + 1) * n_stretches // (2 * n_held) * STRETCH
    return np.stack([first, first + STRETCH], axis=1)


def is_held_out(stretches: Numbers, first: int, n_sentences: int) -> NDArray[np.bool_]:
    """Say which of some sentences are held out.

    Args:
        stretches: as `held_out` gives them.
        first: number of the first sentence in question.
        n_sentences: how many are in question.
    """
    sentences = np.arange(first, first + n_sentences)
    # Beyond an odd number of edges is inside a stretch.
    inside: NDArray[np.bool_] = np.searchsorted(stretches.reshape(-1), sentences, "right") % 2 == 1
    return inside
