"""Tests for the reader of parallel word and tag files."""

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.tagging.parallel_files import read_parallel


@pytest.fixture
def write(tmp_path):
    def write(words, tags, name="train.words.txt"):
        path = tmp_path / name
        path.write_text(words, encoding="utf-8", newline="")
        path.with_name(name.replace("words", "tags")).write_text(tags, newline="")
        return path

    return write


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_read_parallel_returns_words_and_tags(write, end):
    path = write(f"나 의 1\xa0000{end}끝{end}{end}", f"O  O B-X {end}O{end}")
    pairs = [(example.words, example.target) for example in read_parallel(path)]
    assert pairs == [(("나", "의", "1\xa0000"), ("O", "O", "B-X")), (("끝",), ("O",))]


def test_read_parallel_accepts_explicit_tags_file(write, tmp_path):
    path = write("a b\n", "O\n")
    (tmp_path / "others").write_text("X Y\n")
    assert read_parallel(path, tags=tmp_path / "others")[0].target == ("X", "Y")
    assert read_parallel(path, tags=str(tmp_path / "others"))[0].target == ("X", "Y")


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        ("a b\nc d\n", "O O\nO\n", "Line 2 has 2 words in .*words.txt and 1 tags in .*tags.txt"),
        ("a\nb\n", "O\n", "number of lines differs: 2 in .*words.txt, 1 in .*tags.txt"),
        ("a\n\nb\n", "O\n\nO\n", "Line 2 has 0 words .* at least one"),
        ("", "", "contains no sentences"),
    ],
)
def test_read_parallel_rejects_invalid_files(write, words, tags, message):
    with pytest.raises(FormatError, match=message):
        read_parallel(write(words, tags))


def test_read_parallel_rejects_missing_tags_file(write):
    path = write("a\n", "O\n", name="plain.txt")
    with pytest.raises(ConfigError, match=r"does not contain 'words'. .* like train.words.txt"):
        read_parallel(path)
    path = write("a\n", "O\n")
    path.with_name("train.tags.txt").unlink()
    with pytest.raises(FormatError, match=r"Cannot read .*train.tags.txt"):
        read_parallel(path)
