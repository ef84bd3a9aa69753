"""Tests of the description of a prepared corpus."""

import json
from pathlib import Path

import pytest
from corpus_texts import prepared

from elmo.config import ReadingConfig
from elmo.corpus.corpus_info import corpus_info
from elmo.errors import FormatError

OLDER = Path(__file__).parent.parent / "data" / "older"


def test_corpus_info_counts_each_split(tmp_path):
    reading = ReadingConfig(tokenizer="english", sentences="split")
    prepared(tmp_path, "A cat. A dog.\n" * 600, valid="One.\n", reading=reading)
    rows, header = corpus_info(tmp_path / "corpus")
    assert rows == {
        "format": "prepared corpus",
        "train": "3,600 words in 1,200 sentences, 8,400 characters",
        "valid": "2 words in 1 sentence, 5 characters",
        "distinct": "5 words",
        "vocabulary": "7 words",
        "tokenizer": "english",
        "sentences": "split from paragraphs",
    }
    assert json.loads(json.dumps(header))["n_words"] == {"train": 3600, "valid": 2}


def test_corpus_info_of_tokenized_text_names_both_facts(tmp_path):
    reading = ReadingConfig(tokenizer="english", pretokenized=True)
    prepared(tmp_path, "a b\n", reading=reading, held_out=0.0)
    rows, _ = corpus_info(tmp_path / "corpus")
    assert rows["tokenizer"] == "english, tokenized text"
    assert rows["sentences"] == "one per line"


def test_corpus_info_of_an_older_corpus_has_no_characters():
    (folder,) = {path.parent for path in OLDER.rglob("corpus.json")}
    rows, _ = corpus_info(folder)
    assert "sentences" in rows["train"]
    assert "characters" not in rows["train"]


def test_corpus_info_reports_damaged_header(tmp_path):
    prepared(tmp_path, "a b\n", held_out=0.0)
    (tmp_path / "corpus" / "corpus.json").write_text("{")
    with pytest.raises(FormatError, match=r"corpus\.json cannot be read"):
        corpus_info(tmp_path / "corpus")
