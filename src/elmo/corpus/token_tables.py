"""Lookup tables of a corpus: the token row, softmax id and length of each distinct word.

Rows are numbered like the tokens of BPTT segments: `<S>`, `</S>`, then the words of the corpus.
Looking up a segment in the tables gives a batch for the model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.bptt_segments import BPTTSegment, Flags
from elmo.corpus.shards import DistinctWords, Numbers
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.token_batches import TokenMapper
from elmo.text.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True)
class SegmentBatch:
    """A BPTT segment as inputs of a model.

    Attributes:
        words: Distinct words of both directions, as row numbers of the tables, (distinct,).
        index: Index into `words` of every position, (2, steps, streams).
        targets: Softmax ids, (2, steps, streams).
        resets: Whether the LSTM state is set to zero before the step, (2, steps, streams).
    """

    words: Numbers
    index: Numbers
    targets: Numbers
    resets: Flags


@dataclass(frozen=True)
class TokenTables:
    """Tables of `<S>`, `</S>` and all words of a corpus.

    Attributes:
        rows: Token rows, (words + 2, columns), as int16 if the ids fit and int32 otherwise.
        targets: Softmax ids, (words + 2,).
        unknown: Whether the word is not in the vocabulary and predicted as `<UNK>`, (words + 2,).
        characters: Number of code points plus one for the end of the word, (words + 2,). Boundary
            tokens count as one character.
    """

    rows: NDArray[Any]
    targets: Numbers
    unknown: Flags
    characters: Numbers

    def batch(self, segment: BPTTSegment, streams: slice = slice(None)) -> SegmentBatch:
        """Look up a segment, or some of its streams."""
        inputs = segment.inputs[:, :, streams]
        words, index = distinct(inputs, len(self.rows))
        return SegmentBatch(
            words=words,
            index=index,
            targets=self.targets[segment.targets[:, :, streams]],
            resets=segment.resets[:, :, streams],
        )


def distinct(numbers: Numbers, n: int) -> tuple[Numbers, Numbers]:
    """Return the sorted distinct numbers, and the index of each number among them.

    A lookup table of n entries is many times faster than sorting (`numpy.unique`) for the numbers
    of a segment.

    Args:
        numbers: Integers from 0 to n - 1, in any shape.
        n: Upper bound of the numbers, exclusive.
    """
    seen = np.zeros(n, dtype=np.bool_)
    seen[numbers] = True
    distinct_numbers = np.flatnonzero(seen)
    index = np.empty(n, dtype=np.int64)
    index[distinct_numbers] = np.arange(len(distinct_numbers))
    return distinct_numbers, index[numbers]


def token_tables(words: DistinctWords, mapper: TokenMapper, vocabulary: Vocabulary) -> TokenTables:
    """Look up every distinct word once, so that training handles no strings.

    Args:
        words: Distinct words of the corpus.
        mapper: Token mapper of the model.
        vocabulary: Vocabulary of its softmax.
    """
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
