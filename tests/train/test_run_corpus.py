"""Tests of the corpus of a run: reuse of a prepared text, and errors if the text has changed."""

import dataclasses

import pytest
from train_text import write_text

from elmo.config import CorpusConfig, PretrainConfig, ReadingConfig, RunConfig
from elmo.errors import ConfigError, InputError
from elmo.train import checkpoint
from elmo.train.run_corpus import open_corpus


@pytest.fixture
def config(tmp_path):
    text = write_text(tmp_path / "text.txt")
    return PretrainConfig((str(text),), str(tmp_path / "run"))


def n_train_words(config, corpus=None):
    with open_corpus(config, corpus or config.corpus) as opened:
        return opened.splits["train"].n_words


def prepared_at(tmp_path):
    return (tmp_path / "run" / "corpus" / "corpus.json").stat().st_mtime_ns


def add_checkpoint(tmp_path):
    checkpoint.save(tmp_path / "run" / "checkpoints", 1, {"step": 1})


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_corpus_of_unchanged_text_is_used_again(config, tmp_path, has_checkpoint):
    n_words = n_train_words(config)
    before = prepared_at(tmp_path)
    if has_checkpoint:
        add_checkpoint(tmp_path)
    assert n_train_words(config) == n_words
    assert prepared_at(tmp_path) == before


def test_corpus_without_checkpoint_is_prepared_again_from_other_text(config, tmp_path, caplog):
    n_words = n_train_words(config)
    other = write_text(tmp_path / "other.txt", 300)
    assert n_train_words(dataclasses.replace(config, data=(str(other),))) > n_words
    assert "prepared again" in caplog.text
    # The content of the same file has changed.
    write_text(other, 100)
    assert n_train_words(dataclasses.replace(config, data=(str(other),))) < n_words


def test_small_held_out_text_is_reported_once_for_text_and_for_a_corpus(config, tmp_path, caplog):
    message = "too few for a reliable perplexity"
    n_train_words(config)
    assert caplog.text.count(message) == 1
    caplog.clear()
    n_train_words(dataclasses.replace(config, data=(str(tmp_path / "run" / "corpus"),)))
    assert caplog.text.count(message) == 1


def test_corpus_without_checkpoint_is_prepared_again_with_other_options(config, tmp_path):
    n_train_words(config)
    english = CorpusConfig(ReadingConfig(tokenizer="english"))
    with open_corpus(config, english) as corpus:
        assert corpus.reading.tokenizer == "english"


def test_run_with_checkpoint_on_changed_text_is_rejected(config, tmp_path):
    n_words = n_train_words(config)
    add_checkpoint(tmp_path)
    text = tmp_path / "text.txt"
    content = text.read_text()
    text.write_text(content.replace("cats", "bats"))
    with pytest.raises(ConfigError, match=r"has changed since then: .*text\.txt"):
        n_train_words(config)
    text.write_text(content)
    assert n_train_words(config) == n_words


def test_run_with_checkpoint_is_resumed_after_its_text_was_deleted(config, tmp_path):
    n_words = n_train_words(config)
    add_checkpoint(tmp_path)
    (tmp_path / "text.txt").unlink()
    assert n_train_words(config) == n_words


def test_corpus_without_record_is_only_used_by_a_run_with_checkpoint(config, tmp_path):
    n_words = n_train_words(config)
    (tmp_path / "run" / "text.json").unlink()
    with pytest.raises(ConfigError, match=r"--data .*corpus, delete it"):
        n_train_words(config)
    add_checkpoint(tmp_path)
    assert n_train_words(config) == n_words


def test_failed_preparation_leaves_no_training_folder(config, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        n_train_words(dataclasses.replace(config, data=(str(tmp_path / "missing.txt"),)))
    with pytest.raises(ConfigError, match="nonsense"):
        n_train_words(config, CorpusConfig(ReadingConfig(tokenizer="nonsense")))
    with pytest.raises(ConfigError, match="several processes"):
        n_train_words(dataclasses.replace(config, run=RunConfig(devices=2)))
    assert not (tmp_path / "run").exists()


def test_options_that_differ_from_those_of_a_prepared_corpus_are_rejected(config, tmp_path):
    with open_corpus(config, CorpusConfig(ReadingConfig("english", pretokenized=True))):
        pass
    prepared = dataclasses.replace(
        config, data=(str(tmp_path / "run" / "corpus"),), out=str(tmp_path / "other")
    )

    def open_with(**reading):
        corpus = CorpusConfig(ReadingConfig(**reading))
        return n_train_words(dataclasses.replace(prepared, corpus=corpus))

    assert open_with() == open_with(tokenizer="english") == open_with(pretokenized=True)
    with pytest.raises(ConfigError, match=r"so tokenizer \(prepared with english\) cannot be"):
        open_with(tokenizer="whitespace")
    with pytest.raises(ConfigError, match=r"so sentences \(prepared with line\) cannot be"):
        open_with(sentences="split")
    # A run of an earlier version, which ignored the option, is resumed.
    checkpoint.save(tmp_path / "other" / "checkpoints", 1, {"step": 1})
    assert open_with(tokenizer="whitespace")


def test_whitespace_is_the_tokenizer_of_a_corpus_prepared_by_default(config, tmp_path):
    """Presets of benchmarks name it."""
    n_words = n_train_words(config)
    corpus = CorpusConfig(ReadingConfig("whitespace"))
    data = (str(tmp_path / "run" / "corpus"),)
    prepared = dataclasses.replace(config, data=data, out=str(tmp_path / "other"), corpus=corpus)
    assert n_train_words(prepared) == n_words
