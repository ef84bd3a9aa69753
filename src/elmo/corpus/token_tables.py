"""Lookup tables for a corpus: the token row, softmax id and length of each distinct word.

Rows are in the order of the token ids in BPTT segments: `<S>`, `</S>`, then the words of the
corpus. Looking up a segment in the tables yields a batch for the model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.bptt_segments import BPTTSegment, Flags
from elmo.corpus.shards import DistinctWords, Numbers
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.token_batches import TokenMapper
from elmo.text.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True)
class SegmentBatch:
    """A BPTT segment, converted to model inputs.

    The distinct words in both directions are row indices into the tables, (distinct,). Index into
    them, softmax ids of targets, and state resets before each step are (2, steps, streams).
    """

    words: Numbers
    index: Numbers
    targets: Numbers
    resets: Flags

    def first_steps(self, n_steps: int) -> "SegmentBatch":
        """Return the first time steps of the batch."""
        used, index = distinct(self.index[:, :n_steps], len(self.words))
        return SegmentBatch(
            words=self.words[used],
            index=index,
            targets=self.targets[:, :n_steps],
            resets=self.resets[:, :n_steps],
        )


@dataclass(frozen=True)
class TokenTables:
    """Lookup tables for `<S>`, `</S>` and all words of a corpus.

    Attributes:
        rows: Token rows, (words + 2, columns), as int16 if the ids fit and int32 otherwise.
        targets: Softmax ids, (words + 2,).
        unknown: Whether the word is missing from the vocabulary and predicted as `<UNK>`, (words +
            2,).
        characters: Number of code points, plus one for the end of the word, (words + 2,). A
            boundary token counts as one character.
    """

    rows: NDArray[np.int16] | NDArray[np.int32]
    targets: Numbers
    unknown: Flags
    characters: Numbers

    def batch(self, segment: BPTTSegment, streams: slice = slice(None)) -> SegmentBatch:
        """Convert a segment, or some of its streams, to a batch."""
        inputs = segment.inputs[:, :, streams]
        words, index = distinct(inputs, len(self.rows))
        return SegmentBatch(
            words=words,
            index=index,
            targets=self.targets[segment.targets[:, :, streams]],
            resets=segment.resets[:, :, streams],
        )


def distinct(numbers: Numbers, n: int) -> tuple[Numbers, Numbers]:
    """Return the sorted distinct numbers, and the index of each number in that array.

    The numbers are integers from 0 to n - 1. For the token ids of a segment, the lookup table used
    here is many times faster than sorting (`numpy.unique`).
    """
    seen = np.zeros(n, dtype=np.bool_)
    seen[numbers] = True
    distinct_numbers = np.flatnonzero(seen)
    index = np.empty(n, dtype=np.int64)
    index[distinct_numbers] = np.arange(len(distinct_numbers))
    return distinct_numbers, index[numbers]


def token_tables(words: DistinctWords, mapper: TokenMapper, vocabulary: Vocabulary) -> TokenTables:
    """Build the tables by looking up every distinct word once; training needs no strings."""
    vocabulary.require_special_tokens()
    ids = vocabulary.ids
    unknown_id = ids[UNKNOWN]
    boundaries = mapper.boundaries()
    rows = np.empty((len(words) + 2, boundaries.shape[1]), dtype=np.int32)
    targets = np.empty(len(words) + 2, dtype=np.int64)
    unknown = np.zeros(len(words) + 2, dtype=np.bool_)
    characters = np.ones(len(words) + 2, dtype=np.int64)
    rows[:2] = boundaries
    targets[:2] = ids[BEGIN_TOKEN], ids[END_TOKEN]
    start = 2
    for part in words.parts():
        block = slice(start, start + len(part))
        rows[block] = mapper.rows(part)
        targets[block] = [ids.get(word, unknown_id) for word in part]
        unknown[block] = [word not in ids for word in part]
        characters[block] = [len(word) + 1 for word in part]
        start += len(part)
    narrow = rows.max(initial=0) < 2**15
    return TokenTables(rows.astype(np.int16) if narrow else rows, targets, unknown, characters)
