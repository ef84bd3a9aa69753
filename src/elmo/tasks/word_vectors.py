"""Static word vectors from files of word2vec and GloVe: words and their numbers."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import FormatError
from elmo.evaluate.probe_vectors import numbered_lines

# Words of a file, or numbers of a word, in word2vec's first line.
_COUNT = re.compile(r"\d{1,12}")


@dataclass(frozen=True)
class WordVectors:
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


def read_word_vectors(
    path: Path, wanted: Collection[str] | None = None, n_others: int = 0
) -> WordVectors:
    """Read word vectors.

    Args:
        path: a line for each word, below one with counts alone where word2vec wrote it. A file
            whose name ends in .bin is word2vec's binary one.
        wanted: words that a model is trained on; all where None.
        n_others: how many further words are kept, the first of the file, which has frequent words
            first as a rule.
    """
    found: dict[str, NDArray[np.float32]] = {}
    others: dict[str, NDArray[np.float16]] = {}
    for word, vector in _binary(path) if path.suffix == ".bin" else _text(path):
        if wanted is None or word in wanted:
            found.setdefault(word, vector)
        elif len(others) < n_others:
            others.setdefault(word, vector.astype(np.float16))
    if not found:
        raise FormatError(f"{path} holds no vector of a word of the examples")
    vectors = torch.from_numpy(np.stack(list(found.values())))
    # The first row is there for the shape alone, where there are no others.
    rest = np.stack([np.zeros(vectors.shape[1], np.float16), *others.values()])[1:]
    return WordVectors(list(found), vectors, list(others), torch.from_numpy(rest))


def _text(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    width, n_words, n_read = 0, 0, 0
    for number, line in numbered_lines(path):
        # A few words of GloVe hold spaces, so numbers are counted from the end.
        parts = line.rstrip().split(" ")
        if number == 1 and len(parts) == 2 and all(map(_COUNT.fullmatch, parts)):
            n_words, width = map(int, parts)
            continue
        width = width or len(parts) - 1
        word = " ".join(parts[:-width]) if width else ""
        try:
            vector = np.array(parts[-width:], dtype=np.float32)
        except ValueError:
            vector = np.empty(0, dtype=np.float32)
        if not word or len(vector) != width or not np.isfinite(vector).all():
            raise FormatError(f"{path}, line {number}: expected a word and {width} numbers")
        n_read += 1
        yield word, vector
    if n_read < n_words:
        raise FormatError(f"{path} ends after word {n_read:,} of {n_words:,}: it is cut short")


def _binary(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Read counts in a line of text, then words, each with a space and its numbers behind it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None
    counts, _, _ = data[:64].partition(b"\n")
    parts = counts.split()
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise FormatError(f"{path} is no binary file of word2vec: it begins with {counts[:20]!r}")
    n_words, width = map(int, parts)
    place = len(counts) + 1
    for number in range(1, n_words + 1):
        end = data.find(b" ", place)
        # Some programs put the end of a line between a vector and the next word.
        name = data[place:end].removeprefix(b"\n")
        place = end + 1 + 4 * width
        if end < 0 or place > len(data):
            raise FormatError(f"{path} ends in word {number:,} of {n_words:,}: it is cut short")
        vector = np.frombuffer(data, "<f4", width, end + 1)
        try:
            word = name.decode("utf-8")
        except UnicodeDecodeError:
            word = ""
        if not word or not np.isfinite(vector).all():
            raise FormatError(f"{path}, word {number:,}: expected a word and {width} numbers")
        yield word, vector
