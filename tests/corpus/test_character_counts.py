"""Tests for the number of characters of the original text of a split."""

import dataclasses

import pytest
from conftest import TINY

from elmo.corpus import character_counts
from elmo.corpus.character_counts import character_ratio
from elmo.corpus.sentence_reader import corpus_of
from elmo.corpus.token_tables import token_tables
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# "ab  c", a blank line, "日": the tables count 3 + 2 + 1, 1, and 2 + 1 characters.
SENTENCES = [["ab", "c"], [], ["日"]]
N_COUNTED = 10


def ratio_of(n_characters, tokenizer="whitespace"):
    words, split = corpus_of(SENTENCES)
    split = dataclasses.replace(split, n_characters=n_characters)
    tables = token_tables(words, token_mapper(TINY, None, None), Vocabulary(SPECIAL_TOKENS))
    return character_ratio(split, tables, tokenizer)


@pytest.mark.parametrize("chunk", [1, 2**20])
def test_recorded_characters_are_exact_for_a_whole_split(monkeypatch, chunk):
    monkeypatch.setattr(character_counts, "CHUNK_WORDS", chunk)
    ratio = ratio_of(len("ab  c\n\n日\n"))
    assert round(N_COUNTED * ratio.value) == 9
    assert not ratio.is_estimate


@pytest.mark.parametrize(
    ("tokenizer", "text"),
    [
        ("whitespace", "ab c\n\n日\n"),
        (None, "ab c\n\n日\n"),
        ("characters", "abc\n\n日\n"),
    ],
)
def test_characters_that_are_not_recorded_are_estimated_from_the_words(tokenizer, text):
    ratio = ratio_of(None, tokenizer)
    assert round(N_COUNTED * ratio.value) == len(text)
    assert ratio.is_estimate


def test_ratio_of_an_empty_split_is_finite():
    words, split = corpus_of([])
    tables = token_tables(words, token_mapper(TINY, None, None), Vocabulary(SPECIAL_TOKENS))
    assert character_ratio(split, tables, None).value == 0.0
