"""Tests of the record of the text from which a corpus was prepared."""

import os

import pytest

from elmo.config import CorpusConfig, ReadingConfig
from elmo.errors import InputError
from elmo.train.text_record import TextRecord

OPTIONS = CorpusConfig()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("anna sees cats .\n")
    return path


def record_of(path, **options):
    record = TextRecord.of((str(path),), (), CorpusConfig(**options))
    record.save(path.parent / "text.json")
    return TextRecord.load(path.parent / "text.json")


def matches(record, path, options=OPTIONS):
    return record.matches((str(path),), (), options)


def test_record_matches_text_with_another_time_and_other_workers(text):
    record = record_of(text)
    assert matches(record, text, CorpusConfig(workers=3))
    os.utime(text, ns=(1, 1))
    assert matches(record, text)
    assert record.changed_files() == []


@pytest.mark.parametrize("content", ["anna sees dogs .\n", "anna sees cats .\nbert\n"])
def test_record_does_not_match_changed_text(text, content):
    record = record_of(text)
    os.utime(text, ns=(1, 1))
    text.write_text(content)
    assert not matches(record, text)
    assert record.changed_files() == [str(text)]


def test_record_does_not_match_other_options_or_another_file(text):
    record = record_of(text)
    assert not matches(record, text, CorpusConfig(ReadingConfig(tokenizer="english")))
    other = text.with_name("b.txt")
    other.write_text(text.read_text())
    assert not matches(record, other)


def test_record_does_not_match_changed_vocabulary(text):
    vocabulary = text.with_name("vocab.txt")
    vocabulary.write_text("<S>\n</S>\n<UNK>\nanna\n")
    record = record_of(text, vocab=str(vocabulary))
    assert matches(record, text, CorpusConfig(vocab=str(vocabulary)))
    vocabulary.write_text("<S>\n</S>\n<UNK>\nbert and\n")
    assert not matches(record, text, CorpusConfig(vocab=str(vocabulary)))


def test_changed_files_contain_a_new_match_of_a_glob_but_no_deleted_file(text):
    pattern = text.with_name("*.txt")
    record = record_of(pattern)
    added = text.with_name("b.txt")
    added.write_text("bert\n")
    assert record.changed_files() == [str(added)]
    added.unlink()
    text.unlink()
    assert record.changed_files() == []


def test_record_of_standard_input_never_matches(tmp_path):
    record = TextRecord.of(("-",), (), OPTIONS)
    assert not record.matches(("-",), (), OPTIONS)
    assert record.changed_files() == []


def test_record_of_a_missing_file_raises_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        TextRecord.of((str(tmp_path / "missing.txt"),), (), OPTIONS)


def test_damaged_record_is_not_loaded(text):
    record_of(text)
    path = text.with_name("text.json")
    path.write_text(path.read_text()[:50])
    assert TextRecord.load(path) is None
    assert TextRecord.load(text.with_name("missing.json")) is None
