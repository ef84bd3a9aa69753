"""What a model knows of each distinct word of a corpus: its token row, its softmax id, its length.

Rows are numbered as in the windows of a stream: `<S>`, `</S>`, then the words. A window looked up
in the tables is a batch a model can take.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.corpus.bptt_segments import BPTTSegment, Flags
from elmo.corpus.shards import DistinctWords, Numbers
from elmo.text.characters import BEGIN_MARK, END_MARK
from elmo.text.token_batches import TokenMapper
from elmo.text.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True)
class SegmentBatch:
    """Lanes of a window, looked up.

    Attributes:
        words: distinct words of both directions, as numbers into the tables, (distinct,).
        index: which of them stands where, (2, steps, lanes).
        targets: softmax ids, (2, steps, lanes).
        resets: where the state is zero before the step, (2, steps, lanes).
    """

    words: Numbers
    index: Numbers
    targets: Numbers
    resets: Flags


@dataclass(frozen=True)
class TokenTables:
    """Tables over `<S>`, `</S>` and all words of a corpus.

    Attributes:
        rows: token rows, (words + 2, columns), in the narrowest type they fit in.
        targets: softmax ids, (words + 2,).
        unknown: whether a word is not in the vocabulary and so predicted as `<UNK>`, (words + 2,).
        characters: code points and one for the end; a sentence mark is one, (words + 2,).
    """

    rows: NDArray[Any]
    targets: Numbers
    unknown: Flags
    characters: Numbers

    def batch(self, window: BPTTSegment, lanes: slice = slice(None)) -> SegmentBatch:
        """Look up a window, or some of its lanes."""
        inputs = window.inputs[:, :, lanes]
        words, index = distinct(inputs, len(self.rows))
        return SegmentBatch(
            words=words,
            index=index,
            targets=self.targets[window.targets[:, :, lanes]],
            resets=window.resets[:, :, lanes],
        )


def distinct(numbers: Numbers, n: int) -> tuple[Numbers, Numbers]:
    """Give the distinct numbers, in order, and the place of each number among them.

    By marking, which is many times faster than sorting what a window holds.

    Args:
        numbers: from 0 to n - 1, in any shape.
        n: how many there could be.
    """
    seen = np.zeros(n, dtype=np.bool_)
    seen[numbers] = True
    found = np.flatnonzero(seen)
    places = np.empty(n, dtype=np.int64)
    places[found] = np.arange(len(found))
    return found, places[numbers]


def token_tables(words: DistinctWords, mapper: TokenMapper, vocabulary: Vocabulary) -> TokenTables:
    """Look every word up once, so that training touches no string.

    Args:
        words: of the corpus.
        mapper: of the model.
        vocabulary: of its softmax.
    """
    vocabulary.require_specials()
    ids = vocabulary.ids
    unknown_id = ids[UNKNOWN]
    boundaries = mapper.boundaries()
    rows = np.empty((len(words) + 2, boundaries.shape[1]), dtype=np.int32)
    targets = np.empty(len(words) + 2, dtype=np.int64)
    unknown = np.zeros(len(words) + 2, dtype=np.bool_)
    characters = np.ones(len(words) + 2, dtype=np.int64)
    rows[:2] = boundaries
    targets[:2] = ids[BEGIN_MARK], ids[END_MARK]
    start = 2
    for part in words.parts():
        place = slice(start, start + len(part))
        rows[place] = mapper.rows(part)
        targets[place] = [ids.get(word, unknown_id) for word in part]
        unknown[place] = [word not in ids for word in part]
        characters[place] = [len(word) + 1 for word in part]
        start += len(part)
    narrow = rows.max(initial=0) < 2**15
    return TokenTables(rows.astype(np.int16) if narrow else rows, targets, unknown, characters)
