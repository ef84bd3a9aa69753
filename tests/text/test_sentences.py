"""Tests for sentence splitting."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("words", "n_words"),
    [
        ("", []),
        ("no end", [2]),
        ("One . Two ! Three ? Four", [2, 2, 2, 1]),
        ("Wait ... What ?! No … Yes ‼", [2, 2, 2, 2]),
        ("Mr. Smith left . He slept .", [4, 3]),
        ("version 3.5 works .", [4]),
        # Quotes and brackets belong to the sentence they close.
        ("He said ( yes . ) Then left .", [6, 3]),
        ("“ Go ! ” She went .", [4, 3]),
        ("「 行 け 。 」 彼 は 。", [5, 3]),
        ('" Stop ! " He stopped . " Why ? "', [4, 3, 4]),
        ('He left . " Go , " she said .', [3, 7]),
        # A lowercase word continues the sentence.
        ("“ Stop ! ” he said .", [7]),
        ("at 5 p.m . he left", [6]),
        # Scripts without case.
        ("안녕 . 세계 !", [2, 2]),
        ("مرحبا ؟ نعم ۔", [2, 2]),
        (". . a . B", [4, 1]),
        ("! Go .", [1, 2]),
    ],
)
def test_split_sentences_on_worked_examples(words, n_words):
    assert list(map(len, split_sentences(words.split()))) == n_words


@given(st.lists(st.sampled_from(["a", "B", ".", "!", '"', "'", ")", "(", "…", "", "1"])))
def test_split_sentences_preserves_words_and_their_order(words):
    sentences = split_sentences(words)
    assert [word for sentence in sentences for word in sentence] == words
    assert all(sentences)


def test_split_sentences_takes_linear_time():
    start = time.process_time()
    split_sentences([".", '"'] * 50_000)
    split_sentences(["a", "."] * 50_000)
    assert time.process_time() - start < 60  # takes about one second; quadratic time would be hours
