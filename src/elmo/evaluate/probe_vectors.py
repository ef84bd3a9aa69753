"""What the probes share: vectors of many sentences, some at a time, and lines of a file.

A probe takes `Encode`, any function from sentences to arrays, and so knows of no model.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import FormatError, InputError
from elmo.text.token_batches import Sentence

Vectors = NDArray[np.float32]
# Sentences to (layers, words, dim) each, as `encode(sentences, layers="all")` of a model gives.
Encode = Callable[[Sequence[Sentence]], Sequence[Vectors]]

# Words whose vectors are held at a time: at the published size 400 MB.
WORDS_TOGETHER = 2**15


def encode_in_parts(
    encode: Encode, sentences: Sequence[Sentence], words_together: int = WORDS_TOGETHER
) -> Iterator[tuple[range, Vectors]]:
    """Encode sentences in their order, a part at a time.

    Args:
        encode: gives (layers, words, dim) for each sentence.
        sentences: none of them empty.
        words_together: words of a part; a longer sentence is a part of its own.

    Yields:
        The numbers of the sentences of a part, and the vectors of all their words, (layers, words,
        dim).
    """
    first, n_words = 0, 0
    for number, sentence in enumerate(sentences):
        if number > first and n_words + len(sentence) > words_together:
            yield _part(encode, sentences, range(first, number))
            first, n_words = number, 0
        n_words += len(sentence)
    if n_words:
        yield _part(encode, sentences, range(first, len(sentences)))


def _part(encode: Encode, sentences: Sequence[Sentence], numbers: range) -> tuple[range, Vectors]:
    found = encode(sentences[numbers.start : numbers.stop])
    for number, vectors in zip(numbers, found, strict=True):
        if vectors.ndim != 3 or vectors.shape[1] != len(sentences[number]):
            raise InputError(
                f"encode gave shape {vectors.shape} for {len(sentences[number])} words; expected "
                '(layers, words, dim), as layers="all" gives'
            )
    return numbers, np.concatenate(found, axis=1)


def unit(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1; one of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of a UTF-8 file without their ends and its mark, counted from 1."""
    try:
        with path.open("rb") as lines:
            # Decoded one by one: of a file that is decoded in blocks, no line could be named.
            for number, line in enumerate(lines, start=1):
                data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield number, _decoded(path, number, data.rstrip(b"\r\n"))
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(
            f"{path}, line {number} is not UTF-8: convert the file (iconv -t UTF-8), or fetch it "
            "again where it is damaged"
        ) from None
