"""Tests of checks of texts that are passed as Python values."""

import math

import numpy as np
import pytest

from elmo.embed.embedder import ELMo
from elmo.errors import InputError
from elmo.tasks import Classifier
from elmo.text.text_values import check_not_missing

SPACY_WORDS = r"\[token\.text for token in doc if not token\.is_space\]"


@pytest.fixture(scope="module")
def small():
    return ELMo.from_pretrained("small-en")


@pytest.fixture(scope="module")
def doc():
    spacy = pytest.importorskip("spacy")
    return spacy.blank("en")("He  sat on\nthe bank.")


def test_encode_rejects_a_table_and_names_one_column(small):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"review": ["A fine film.", "Too long."]})
    for texts in (table, table[["review"]]):
        with pytest.raises(InputError, match="sentences has type DataFrame, a table"):
            small.encode(texts)
        with pytest.raises(InputError, match=r"texts has type DataFrame, a table\. Pass one"):
            Classifier().fit(texts, ["a", "b"])
    assert len(small.encode(table.review)) == 2


def test_arrays_with_a_single_column_are_rejected(small):
    column = np.array([["A fine film."], ["Too long."]], dtype=object)
    with pytest.raises(InputError, match=r"sentences has the shape \(2, 1\), .*values\[:, 0\]"):
        small.encode(column, pooling="mean")
    with pytest.raises(InputError, match=r"texts has the shape \(2, 1\)"):
        Classifier().fit(column, ["a", "b"])
    assert len(small.encode(column[:, 0])) == 2
    words = np.array([["He", "sat"], ["It", "rained"]])
    assert [len(vectors) for vectors in small.encode(words)] == [2, 2]


def test_encode_rejects_dictionaries(small):
    with pytest.raises(InputError, match=r"sentences has type dict\. Pass a list of sentences"):
        small.encode({"a": "A fine film."})
    with pytest.raises(InputError, match=r"sentence 1 has type dict, expected .* contains the te"):
        small.encode(["A fine film.", {"text": "Too long."}])


@pytest.mark.parametrize("value", [None, math.nan, np.float64("nan")])
def test_encode_names_the_position_of_a_missing_text(small, value):
    message = r"1 is a missing value \((nan|None)\)\. Drop "
    remedy = r".*dropna\(\) or column\.fillna"
    with pytest.raises(InputError, match=f"sentence {message}{remedy}"):
        small.encode(["A fine film.", value])
    with pytest.raises(InputError, match=rf"Text {message}missing texts .*dropna.*empty='keep'"):
        Classifier().fit(["A fine film.", value], ["a", "b"])


def test_missing_values_of_pandas_are_recognized():
    pandas = pytest.importorskip("pandas")
    for value in (pandas.NA, pandas.NaT):
        with pytest.raises(InputError, match="text 3 is a missing value"):
            check_not_missing(value, "text 3")
    check_not_missing("nan", "text 3")


def test_errors_about_spacy_objects_contain_the_expression_for_their_words(small, doc):
    with pytest.raises(InputError, match=rf"type Doc\. .*: \[{SPACY_WORDS}\]"):
        small.encode(doc)
    with pytest.raises(InputError, match=f"sentence 0 contains spaCy tokens, .*: {SPACY_WORDS}"):
        small.encode([doc])
    with pytest.raises(InputError, match=rf"sentence 0 has type Token, .*: \[{SPACY_WORDS}\]"):
        small.encode(list(doc))


def test_words_of_a_spacy_document_without_white_space_are_those_of_the_spacy_tokenizer(doc):
    elmo = ELMo.from_pretrained("small-en", tokenizer="spacy:blank-en")
    words = [token.text for token in doc if not token.is_space]
    assert len(words) < len(doc)
    offsets = [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
    assert [(token.start, token.end) for token in elmo.tokenize(doc.text)] == offsets
    assert np.array_equal(elmo.encode([words])[0], elmo.encode(doc.text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (["a", "b"], "got type list. Call tokenize once for each text"),
        (None, "got type NoneType. Pass a string"),
        (b"a b", "got type bytes. Pass a string"),
    ],
)
def test_tokenize_rejects_values_that_are_not_strings(small, text, message):
    with pytest.raises(InputError, match=f"tokenize expects one text as a string, but {message}"):
        small.tokenize(text)


def test_tokenize_names_the_text_of_a_spacy_document(small, doc):
    with pytest.raises(InputError, match=r"got type Doc\. Pass .*: doc\.text"):
        small.tokenize(doc)


@pytest.mark.parametrize("sentences", [b"a b", [b"a b"], bytearray(b"a")])
def test_encode_asks_to_decode_bytes(small, sentences):
    with pytest.raises(InputError, match=r"has type byte.*\. Decode it first"):
        small.encode(sentences)
