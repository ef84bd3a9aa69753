"""The words of spaCy documents, and arrays with one row per token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

# Vectors of words or tokens, (..., words, dim).
FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class DocSentence:
    """A sentence of one of several documents, without white space.

    Attributes:
        doc: Index of the document.
        tokens: Positions of the words in the document.
        words: Texts of the words.
    """

    doc: int
    tokens: list[int]
    words: list[str]


def doc_sentences(docs: Sequence[Doc]) -> list[DocSentence]:
    """Return the sentences of documents that have words.

    A document whose sentence boundaries are not set is one sentence.
    """
    sentences = []
    for number, doc in enumerate(docs):
        for part in doc.sents if doc.has_annotation("SENT_START") else [doc]:
            tokens = [token for token in part if not token.is_space]
            if tokens:
                positions, words = [token.i for token in tokens], [token.text for token in tokens]
                sentences.append(DocSentence(number, positions, words))
    return sentences


def token_rows(
    docs: Sequence[Doc],
    sentences: Sequence[DocSentence],
    vectors: Sequence[FloatArray],
    shape: tuple[int, ...],
) -> list[FloatArray]:
    """Return one array per document with a row per token, zero for white space.

    Args:
        docs: The documents.
        sentences: Their sentences, from `doc_sentences`.
        vectors: The vectors of each sentence, (..., words, dim).
        shape: Shape of the vector or vectors of a token: (dim,) or (layers, dim).
    """
    *lead, dim = shape
    rows = [np.zeros((*lead, len(doc), dim), dtype=np.float32) for doc in docs]
    for sentence, values in zip(sentences, vectors, strict=True):
        rows[sentence.doc][..., sentence.tokens, :] = values
    return rows
