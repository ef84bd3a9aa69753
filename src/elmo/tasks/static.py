"""Static word vectors from text files, as word2vec and GloVe write them: a word and its numbers."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import FormatError
from elmo.evaluate.vectors import numbered_lines


@dataclass(frozen=True)
class StaticTable:
    """Static vectors of words.

    Attributes:
        words: that a model meets when it is trained, and whose vectors may learn.
        vectors: theirs, (words, dim).
        others: words that it may meet later.
        other_vectors: theirs in float16, (others, dim), which stay as they were read.
    """

    words: list[str]
    vectors: Tensor
    others: list[str]
    other_vectors: Tensor


def read_static(
    path: Path, wanted: Collection[str] | None = None, n_others: int = 0
) -> StaticTable:
    """Read word vectors.

    Args:
        path: a line for each word; word2vec's first line, counts alone, is passed over.
        wanted: words that a model is trained on; all where None.
        n_others: how many further words are kept, the first of the file, which has frequent words
            first as a rule.
    """
    width = 0
    found: dict[str, NDArray[np.float32]] = {}
    others: dict[str, NDArray[np.float16]] = {}
    for number, line in numbered_lines(path):
        # A few words of GloVe hold spaces, so numbers are counted from the end.
        parts = line.rstrip().split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
            continue
        width = width or len(parts) - 1
        word = " ".join(parts[:-width]) if width else ""
        try:
            vector = np.array(parts[-width:], dtype=np.float32)
        except ValueError:
            vector = np.empty(0, dtype=np.float32)
        if not word or len(vector) != width or not np.isfinite(vector).all():
            raise FormatError(f"{path}, line {number}: expected a word and {width} numbers")
        if wanted is None or word in wanted:
            found.setdefault(word, vector)
        elif len(others) < n_others:
            others.setdefault(word, vector.astype(np.float16))
    if not found:
        raise FormatError(f"{path} holds no vector of a word of the examples")
    # The first row is there for the shape alone, where there are no others.
    rest = np.stack([np.zeros(width, np.float16), *others.values()])[1:]
    vectors = torch.from_numpy(np.stack(list(found.values())))
    return StaticTable(list(found), vectors, list(others), torch.from_numpy(rest))
