"""Tests for vectors and similarity of spaCy's documents, spans and tokens."""

import pickle
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from elmo.errors import InputError
from elmo.integrations.spacy_hooks import add_hooks

VOCAB = spacy.blank("en").vocab


def doc_with(tensor, words=("a", " ", "a", "b")):
    doc = Doc(VOCAB, words=list(words))
    doc.tensor = np.array(tensor, dtype=np.float32)
    return add_hooks(doc)


@pytest.fixture
def doc():
    return doc_with([[1, 0], [0, 0], [0, 2], [2, 4]])


def test_vectors_of_spans_and_documents_are_means_of_their_words(doc):
    assert list(doc.vector) == [1, 2]
    assert list(doc[:2].vector) == [1, 0]
    assert list(doc[3].vector) == [2, 4]
    assert list(doc[1:2].vector) == [0, 0]
    assert doc[2].has_vector
    assert doc[:2].has_vector
    assert doc.has_vector
    assert not doc[1].has_vector
    assert list(doc_with(np.zeros((0, 2)), ()).vector) == [0, 0]


def test_vectors_follow_the_tensor_after_retokenization(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:3])
    assert doc.tensor.tolist() == [[0, 2], [2, 4]]  # spaCy keeps the row of the last token
    assert list(doc.vector) == [1, 3]
    assert list(doc[0].vector) == [0, 2]
    split = doc_with([[1, 0], [2, 4], [6, 2]], ["a", "bc", "d"])
    with split.retokenize() as retokenizer:
        retokenizer.split(split[1], ["b", "c"], heads=[(split[1], 1), split[0]])
    assert [list(token.vector) for token in split] == [[1, 0], [0, 0], [0, 0], [6, 2]]
    assert list(split.vector) == [7 / 4, 2 / 4]
    assert list(split[2:].vector) == [3, 1]
    assert split.has_vector
    assert not split[1].has_vector
    assert split.similarity(split) == pytest.approx(1)


def test_norm_of_each_part_is_that_of_its_vector(doc):
    for part in (doc, doc[:3], doc[3]):
        assert part.vector_norm == pytest.approx(np.linalg.norm(part.vector))


def test_similarity_of_equal_words_depends_on_context(doc):
    assert doc[0].similarity(doc[2]) == 0
    assert doc[:1].similarity(doc[2:3]) == 0
    assert doc[3].similarity(doc) == pytest.approx(1)
    assert doc[1].similarity(doc) == 0


def test_vectors_of_different_models_are_not_compared(doc):
    other = doc_with([[1, 2, 3]], ["a"])
    with pytest.raises(InputError, match="2 and 3 dimensions cannot be compared"):
        doc.similarity(other)


def test_hooks_are_pickled_and_added_again_after_conversion_to_bytes(doc):
    assert pickle.loads(pickle.dumps(doc))[0].similarity(doc[2]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        read = Doc(VOCAB).from_bytes(doc.to_bytes())
        assert read[0].similarity(doc[2]) == 1  # as spaCy does for equal words
    assert add_hooks(read)[0].similarity(doc[2]) == 0
