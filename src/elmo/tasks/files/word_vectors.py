"""Readers for word vector files in word2vec and GloVe format."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import FormatError
from elmo.tasks.files.text_lines import numbered_lines

# A count in the header line of a word2vec file: the number of words or of dimensions.
_COUNT = re.compile(r"\d{1,12}")


@dataclass(frozen=True)
class WordVectors:
    """Word vectors for words in the training examples, (words, dim), and for other words.

    The vectors of other words, which can occur in new texts, are float16 and never trained.
    """

    words: list[str]
    vectors: Tensor
    others: list[str]
    other_vectors: Tensor


def read_word_vectors(
    path: Path, wanted: Collection[str] | None = None, n_others: int = 0
) -> WordVectors:
    """Read word vectors of the wanted words, by default all, and of up to `n_others` other words.

    The file has one word per line, optionally after the two counts of word2vec; or it is a binary
    word2vec file if the name ends in .bin. The first other words are read, because files usually
    list words by decreasing frequency.
    """
    found: dict[str, NDArray[np.float32]] = {}
    others: dict[str, NDArray[np.float16]] = {}
    for word, vector in _read_binary(path) if path.suffix == ".bin" else _read_text(path):
        if wanted is None or word in wanted:
            found.setdefault(word, vector)
        elif len(others) < n_others:
            others.setdefault(word, vector.astype(np.float16))
    if not found:
        raise FormatError(f"{path} does not contain a vector for any word in the examples.")
    vectors = torch.from_numpy(np.stack(list(found.values())))
    # If there are no other words, the first row only determines the shape.
    rest = np.stack([np.zeros(vectors.shape[1], np.float16), *others.values()])[1:]
    return WordVectors(list(found), vectors, list(others), torch.from_numpy(rest))


def _read_text(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    width, n_words, n_read = 0, 0, 0
    for number, line in numbered_lines(path):
        # A few GloVe words contain spaces, so values are counted from the end.
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
            raise FormatError(f"{path}, line {number}: expected a word and {width} finite values.")
        n_read += 1
        yield word, vector
    if n_read < n_words:
        raise FormatError(f"{path} is truncated: it ends after word {n_read:,} of {n_words:,}.")


def _read_binary(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Read binary word2vec data: a header with two counts, then each word, a space, its vector."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror}.") from None
    header, _, _ = data[:64].partition(b"\n")
    counts = header.split()
    if len(counts) != 2 or not all(count.isdigit() and int(count) for count in counts):
        raise FormatError(
            f"{path} is not a binary word2vec file: it begins with {header[:20]!r}, not with "
            "two counts."
        )
    n_words, width = map(int, counts)
    position = len(header) + 1
    for number in range(1, n_words + 1):
        end = data.find(b" ", position)
        # Some programs write a line break between a vector and the next word.
        name = data[position:end].removeprefix(b"\n")
        position = end + 1 + 4 * width
        if end < 0 or position > len(data):
            raise FormatError(f"{path} is truncated: it ends in word {number:,} of {n_words:,}.")
        vector = np.frombuffer(data, "<f4", width, end + 1)
        try:
            word = name.decode("utf-8")
        except UnicodeDecodeError:
            word = ""
        if not word or not np.isfinite(vector).all():
            raise FormatError(
                f"{path}, word {number:,}: expected a word and {width} finite values."
            )
        yield word, vector
