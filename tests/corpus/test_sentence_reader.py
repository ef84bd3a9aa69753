"""Tests for reading sentences, and for small in-memory corpora."""

import pytest

from elmo.config import ReadingConfig
from elmo.corpus.sentence_reader import corpus_of, read_sentences

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


def test_corpus_of_numbers_words_by_first_occurrence():
    words, split = corpus_of([["b", "a"], [], ["a", "é"]])
    assert words.strings(0, 3) == ["b", "a", "é"]
    assert split.shards[0].words.tolist() == [0, 1, 1, 2]
    assert split.shards[0].starts.tolist() == [0, 2, 2, 4]
    words, split = corpus_of([])
    assert (len(words), split.n_sentences) == (0, 0)
