"""Encoding of sentences chunk by chunk.

Probes and lookup tasks do not depend on a model class. Instead, they take an `Encode` function that
maps sentences to vectors.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
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
    """Encode sentences, none of them empty, in chunks of a limited number of words.

    `encode` returns an array (layers, words, dim) for each sentence. A sentence of more words forms
    its own chunk. Yields the indices of the sentences in a chunk, and the vectors of all their
    words, (layers, words, dim).
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
