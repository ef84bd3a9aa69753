"""Decomposition of Hangul syllables into jamo, as defined by the Unicode standard."""

import numpy as np
from numpy.typing import NDArray

FIRST_SYLLABLE = 0xAC00
N_SYLLABLES = 11172
LEADING, VOWEL, TRAILING = 0x1100, 0x1161, 0x11A7
N_VOWELS, N_TRAILING = 21, 28


def to_jamo(
    points: NDArray[np.uint32], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Decompose Hangul syllables into conjoining jamo, leaving other characters unchanged.

    Arguments and results are the concatenated code points of words, and the number of code points
    in each word.
    """
    # Below the first syllable the unsigned difference wraps around to a huge number.
    syllable = points - np.uint32(FIRST_SYLLABLE)
    is_syllable = syllable < N_SYLLABLES
    trailing = np.where(is_syllable, syllable % N_TRAILING, 0)
    counts = 1 + is_syllable + (trailing > 0)
    ends = np.cumsum(counts)
    starts = ends - counts
    jamo = np.empty(int(counts.sum()), dtype=np.uint32)
    jamo[starts[~is_syllable]] = points[~is_syllable]
    first, syllable = starts[is_syllable], syllable[is_syllable]
    jamo[first] = LEADING + syllable // (N_VOWELS * N_TRAILING)
    jamo[first + 1] = VOWEL + syllable % (N_VOWELS * N_TRAILING) // N_TRAILING
    jamo[starts[trailing > 0] + 2] = TRAILING + trailing[trailing > 0]
    # Ends of the words among the jamo.
    word_ends = np.concatenate([[0], ends])[np.cumsum(lengths)]
    return jamo, np.diff(word_ends, prepend=0)
