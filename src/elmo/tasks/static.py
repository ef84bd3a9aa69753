"""Static word vectors from text files, as word2vec and GloVe write them: a word and its numbers."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo.errors import FormatError
from elmo.evaluate.vectors import numbered_lines


def read_static(path: Path, wanted: Collection[str] | None = None) -> tuple[list[str], Tensor]:
    """Read word vectors.

    Args:
        path: a line for each word; word2vec's first line, counts alone, is passed over.
        wanted: words to keep; all where None.

    Returns:
        The words, and their vectors, (words, dim).
    """
    width = 0
    words: dict[str, int] = {}
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
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
        if word not in words and (wanted is None or word in wanted):
            words[word] = len(rows)
            rows.append(vector)
    if not rows:
        raise FormatError(f"{path} holds no vector of a word of the examples")
    return list(words), torch.from_numpy(np.stack(rows))
