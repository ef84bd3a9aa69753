"""Code shared by the probes: encoding sentences chunk by chunk, and reading lines of text files.

Probes do not depend on a model class. Instead, they take an `Encode` function that maps sentences
to vectors.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import FormatError, InputError
from elmo.progress import Progress
from elmo.text.token_batches import Sentence

Vectors = NDArray[np.float32]
# Function that returns (layers, words, dim) for each sentence, such as
# `lambda sentences: model.encode(sentences, layers="all")`.
Encode = Callable[[Sequence[Sentence]], Sequence[Vectors]]

# Number of words whose vectors are in memory at a time: 400 MB for the original ELMo model.
WORDS_PER_CHUNK = 2**15


def encode_in_parts(
    encode: Encode, sentences: Sequence[Sentence], max_words: int = WORDS_PER_CHUNK
) -> Iterator[tuple[range, Vectors]]:
    """Encode sentences in chunks of a limited number of words.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        sentences: Sentences with at least one word each.
        max_words: Maximum number of words per chunk. A longer sentence forms its own chunk.

    Yields:
        Indices of the sentences in a chunk, and the vectors of all their words, (layers, words,
        dim).

    Raises:
        InputError: `encode` returned an array of the wrong shape.
    """
    first, n_words = 0, 0
    with Progress("encode", sum(map(len, sentences)), "words") as progress:
        for number, sentence in enumerate(sentences):
            if number > first and n_words + len(sentence) > max_words:
                yield _encode_part(encode, sentences, range(first, number))
                progress.advance(n_words)
                first, n_words = number, 0
            n_words += len(sentence)
        if n_words:
            yield _encode_part(encode, sentences, range(first, len(sentences)))


def _encode_part(
    encode: Encode, sentences: Sequence[Sentence], numbers: range
) -> tuple[range, Vectors]:
    arrays = encode(sentences[numbers.start : numbers.stop])
    for number, vectors in zip(numbers, arrays, strict=True):
        if vectors.ndim != 3 or vectors.shape[1] != len(sentences[number]):
            raise InputError(
                f"encode returned an array of shape {vectors.shape} for a sentence of "
                f"{len(sentences[number])} words. Expected (layers, words, dim), as with "
                'layers="all".'
            )
    return numbers, np.concatenate(arrays, axis=1)


def unit(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1. Zero vectors are left unchanged."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers.

    Line endings and a byte order mark are removed.

    Args:
        path: Text file.

    Yields:
        Line number, starting at 1, and text of the line.

    Raises:
        FormatError: The file cannot be read or is not UTF-8.
    """
    try:
        with path.open("rb") as lines:
            # Decode each line separately, so that an error can name the line.
            for number, line in enumerate(lines, start=1):
                data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield number, _decode(path, number, data.rstrip(b"\r\n"))
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror}.") from None


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(
            f"{path}, line {number} is not valid UTF-8. Convert the file (iconv -f ENCODING -t "
            "UTF-8), or download it again if it is damaged."
        ) from None
