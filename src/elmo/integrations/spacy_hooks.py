"""Vectors and similarity of spaCy's documents, spans and tokens, computed from `doc.tensor`.

The hooks are functions of this module, because a pickled document contains them by name.
"""

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from elmo.errors import InputError

Vector = NDArray[np.float32]


def add_hooks(doc: Doc) -> Doc:
    """Add the hooks to a document with vectors in `doc.tensor`, and return the document.

    The component `elmo` does this. spaCy does not store hooks: call it for documents that were read
    from bytes, or that come from `nlp.pipe(..., n_process=2)`.
    """
    for hooks, vector in (
        (doc.user_hooks, span_vector),
        (doc.user_span_hooks, span_vector),
        (doc.user_token_hooks, token_vector),
    ):
        hooks["vector"] = vector
        hooks["has_vector"] = has_vector
        hooks["similarity"] = similarity
    return doc


def token_vector(token: Token) -> Vector:
    """Return the vector of a token, which is zero for white space."""
    return np.asarray(token.doc.tensor[token.i], dtype=np.float32)


def span_vector(span: Doc | Span) -> Vector:
    """Return the mean vector of the words of a span or document, or zeros without words."""
    tensor = np.asarray(span.doc.tensor, dtype=np.float32)
    # By index: after a token was split, spaCy's tensor has more rows than there are tokens.
    words = [token.i for token in span if not token.is_space]
    if not words:
        return np.zeros(tensor.shape[-1], dtype=np.float32)
    mean: Vector = tensor[words].mean(axis=0)
    return mean


def has_vector(part: Doc | Span | Token) -> bool:
    """Whether a part of a document has a vector that is not zero."""
    return bool(part.vector.any())


def similarity(part: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """Return the cosine of two vectors; 0 if one of them is zero."""
    first, second = np.asarray(part.vector), np.asarray(other.vector)
    if first.shape != second.shape:
        raise InputError(
            f"Vectors of {first.size} and {second.size} dimensions cannot be compared. Process "
            "both texts with the same ELMo model."
        )
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms else 0.0
