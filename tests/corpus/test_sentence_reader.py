"""Tests for reading sentences, and for small in-memory corpora."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.config import ReadingConfig
from elmo.corpus.sentence_reader import (
    characters_by_sentence,
    corpus_of,
    read_corpus,
    read_sentences,
    reading_splitter,
    to_sentences,
)
from elmo.errors import ConfigError

TEXT = "One here . Two there .\n\n “ Go ! ” he said .\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["One here . Two there .", "“ Go ! ” he said ."]),
        ({"keep_blank_lines": True}, ["One here . Two there .", "", "“ Go ! ” he said ."]),
        ({"sentences": "split"}, ["One here .", "Two there .", "“ Go ! ” he said ."]),
        (
            {"sentences": "split", "keep_blank_lines": True},
            ["One here .", "Two there .", "", "“ Go ! ” he said ."],
        ),
    ],
)
def test_read_sentences_applies_reading_options(tmp_path, options, expected):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    sentences = read_sentences([f"{tmp_path}/te*"], ReadingConfig(**options))
    assert [" ".join(words) for words in sentences] == expected


def test_read_sentences_uses_configured_tokenizer(tmp_path):
    (tmp_path / "text").write_text("It's 日本.\n", encoding="utf-8")
    reading = ReadingConfig(tokenizer="english")
    assert list(read_sentences([f"{tmp_path}/text"], reading)) == [["It", "'s", "日本", "."]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # The characters of the blank line belong to the sentence before it.
        ({}, [0, 24 + 1, 20]),
        ({"keep_blank_lines": True}, [0, 24, 1, 20]),
        # The words of "Two there ." have 9 characters; white space belongs to the first sentence.
        ({"sentences": "split"}, [0, 15, 9 + 1, 20]),
    ],
)
def test_characters_are_assigned_to_sentences(options, expected):
    lines = ["One here .  Two there .", "", " “ Go ! ” he said ."]
    reading = ReadingConfig(**options)
    split = to_sentences(lines, reading_splitter(reading), reading)
    characters = characters_by_sentence(lines, split).tolist()
    assert sum(characters) == sum(map(len, lines)) + 3
    assert characters == expected


@given(
    lines=st.lists(st.lists(st.sampled_from(["a", " ", ".", "B", "\t"])).map("".join)),
    sentences=st.sampled_from(["line", "split"]),
    keep=st.booleans(),
)
def test_all_characters_are_assigned_once(lines, sentences, keep):
    reading = ReadingConfig("english", sentences, keep)
    split = to_sentences(lines, reading_splitter(reading), reading)
    characters = characters_by_sentence(lines, split)
    assert len(characters) == len(split.sentences) + 1
    assert characters.sum() == sum(map(len, lines)) + len(lines)
    for words, count in zip(split.sentences, characters[1:], strict=True):
        assert count >= sum(map(len, words))


@pytest.mark.parametrize("sentences", ["line", "split"])
def test_read_corpus_counts_all_characters_of_the_text(tmp_path, sentences):
    text = "\n  One. Two\there.\r\n\n日本 é\nlast"
    (tmp_path / "text").write_text("\ufeff" + text, encoding="utf-8", newline="")
    _, split = read_corpus([f"{tmp_path}/text"], ReadingConfig("english", sentences))
    assert split.n_characters == len(text) + 1


def test_sentences_cannot_be_split_if_white_space_is_kept():
    with pytest.raises(ConfigError, match="--sentences split cannot be used"):
        ReadingConfig("characters-and-spaces", "split")


def test_corpus_of_numbers_words_by_first_occurrence():
    words, split = corpus_of([["b", "a"], [], ["a", "é"]])
    assert words.strings(0, 3) == ["b", "a", "é"]
    assert split.shards[0].words.tolist() == [0, 1, 1, 2]
    assert split.shards[0].starts.tolist() == [0, 2, 2, 4]
    words, split = corpus_of([])
    assert (len(words), split.n_sentences) == (0, 0)
