"""Tests for the command `vocab`, with texts and with prepared corpora."""

import dataclasses
import io
import os
import sys
from types import SimpleNamespace

import pytest
from corpus_texts import prepared

from elmo.config import ReadingConfig, VocabConfig
from elmo.corpus import line_blocks, word_counts
from elmo.corpus import vocab_file as module
from elmo.corpus.vocab_file import vocab
from elmo.errors import ConfigError, InputError, OutputError
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXT = "b a b\nc b é\n<UNK> a\n"


def words(path):
    return list(Vocabulary.load(path).words)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize(
    ("options", "expected", "n_unknown"),
    [
        ({}, ["b", "a", "c", "é"], 0),
        ({"min_count": 2}, ["b", "a"], 3),
        ({"vocab_size": 4}, ["b"], 5),
        ({"workers": 1, "reading": ReadingConfig("characters")}, None, 0),
    ],
)
def test_vocab_writes_most_frequent_words_of_text(
    tmp_path, text, monkeypatch, options, expected, n_unknown
):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 5)
    monkeypatch.setattr(word_counts, "DICTIONARY_BYTES", 0)
    result = vocab(VocabConfig((text,), str(tmp_path / "vocab.txt"), **{"workers": 1, **options}))
    written = words(tmp_path / "vocab.txt")
    if expected is None:
        assert set(written) == {*SPECIAL_TOKENS, *"abcé<UNK>"}
    else:
        assert written == [*SPECIAL_TOKENS, *expected]
        assert result.n_words == 8
        assert result.n_distinct == 5
    assert (result.n_vocabulary, result.n_unknown) == (len(written), n_unknown)
    assert f"{len(written)} words, of " in str(result)
    assert sorted(os.listdir(tmp_path)) == ["text.txt", "vocab.txt"]


def test_vocab_reads_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    vocab(VocabConfig(("-",), str(tmp_path / "vocab.txt")))
    assert words(tmp_path / "vocab.txt") == [*SPECIAL_TOKENS, "b", "a", "c", "é"]


def test_vocab_counts_training_split_of_prepared_corpus(tmp_path):
    prepared(tmp_path, TEXT, valid="x y\n")
    result = vocab(VocabConfig((str(tmp_path / "corpus"),), str(tmp_path / "v.txt"), min_count=2))
    assert words(tmp_path / "v.txt") == [*SPECIAL_TOKENS, "b", "a"]
    assert (result.n_words, result.n_distinct, result.n_unknown) == (8, 5, 3)
    config = VocabConfig((str(tmp_path / "corpus"),), str(tmp_path / "w"), ReadingConfig("english"))
    with pytest.raises(ConfigError, match=r"is a prepared corpus.*--tokenizer"):
        vocab(config)
    reading = ReadingConfig(input_format="jsonl")
    with pytest.raises(ConfigError, match=r"is a prepared corpus.*--input-format"):
        vocab(dataclasses.replace(config, reading=reading))


def test_vocab_rejects_texts_without_words_and_unknown_tokenizers(tmp_path):
    (tmp_path / "text.txt").write_text(" \n\n")
    with pytest.raises(InputError, match="contains no words"):
        vocab(VocabConfig((str(tmp_path / "text.txt"),), str(tmp_path / "vocab.txt")))
    with pytest.raises(ConfigError, match="klingon"):
        vocab(VocabConfig((str(tmp_path / "text.txt"),), "v", ReadingConfig("klingon")))
    assert os.listdir(tmp_path) == ["text.txt"]


@pytest.mark.parametrize("options", [{"vocab_size": 3}, {"min_count": 0}, {"workers": 0}], ids=str)
def test_vocab_config_rejects_invalid_options(options):
    with pytest.raises(ConfigError):
        VocabConfig(("text",), "vocab.txt", **options)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left")], ids=repr)
@pytest.mark.parametrize("function", ["count_text", "write_vocabulary"])
def test_vocab_leaves_existing_file_unchanged_on_error(
    tmp_path, text, monkeypatch, error, function
):
    def fail(*_, **__):
        raise error

    (tmp_path / "vocab.txt").write_text("older")
    monkeypatch.setattr(module, function, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        vocab(VocabConfig((text,), str(tmp_path / "vocab.txt")))
    assert sorted(os.listdir(tmp_path)) == ["text.txt", "vocab.txt"]
    assert (tmp_path / "vocab.txt").read_text() == "older"


def test_vocab_rejects_output_in_missing_folder(tmp_path, text):
    with pytest.raises(OutputError, match="does not exist"):
        vocab(VocabConfig((text,), str(tmp_path / "no" / "vocab.txt")))
