"""Tests of reading word vector files."""

import struct

import pytest
import torch

from elmo.errors import FormatError
from elmo.tasks.files.word_vectors import read_word_vectors

GLOVE = "the 1 2 3\nof -1 0.5 2e-1\n. . . 4 5 6\nthe 9 9 9\n\u00a0 7 8 9\n"


def write(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("header", ["", "5 3\n", "\ufeff", "\ufeff5 3\n"])
@pytest.mark.parametrize("line_end", ["\n", " \n", "\r\n"])
def test_read_word_vectors_supports_glove_and_word2vec_text(tmp_path, header, line_end):
    loaded = read_word_vectors(write(tmp_path, (header + GLOVE).replace("\n", line_end)))
    # A word can contain spaces; if a word occurs twice, the first vector is used.
    assert loaded.words == ["the", "of", ". . .", "\u00a0"]
    expected = [[1, 2, 3], [-1, 0.5, 0.2], [4, 5, 6], [7, 8, 9]]
    torch.testing.assert_close(loaded.vectors, torch.tensor(expected))
    assert (loaded.others, loaded.other_vectors.shape) == ([], (0, 3))


def test_read_word_vectors_returns_only_wanted_words(tmp_path):
    path = write(tmp_path, GLOVE)
    loaded = read_word_vectors(path, {"of", "none"})
    assert loaded.words == ["of"]
    assert loaded.vectors.shape == (1, 3)
    assert loaded.others == []
    with pytest.raises(FormatError, match="does not contain a vector for any word in the examples"):
        read_word_vectors(path, {"none"})


@pytest.mark.parametrize(("n_others", "expected"), [(1, ["the"]), (9, ["the", ". . .", "\u00a0"])])
def test_read_word_vectors_returns_the_first_other_words_of_the_file(tmp_path, n_others, expected):
    loaded = read_word_vectors(write(tmp_path, GLOVE), {"of"}, n_others)
    assert loaded.words == ["of"]
    assert loaded.others == expected
    assert loaded.other_vectors.dtype == torch.float16
    assert loaded.other_vectors.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]][:n_others]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a 1 2\nb 1\n", 2),
        ("a 1 2\nb 1 x\n", 2),
        ("2 2\na 1 2\nb 1 nan\n", 3),
        ("a 1 2\n\nb 1 2\n", 2),
        ("a 1 2\n 1 2\n", 2),
        ("a\nb\n", 1),
    ],
)
def test_read_word_vectors_rejects_malformed_line(tmp_path, text, line):
    path = write(tmp_path, text)
    with pytest.raises(
        FormatError, match=rf"vectors.txt, line {line}: expected a word and \d finite"
    ):
        read_word_vectors(path)


def test_read_word_vectors_rejects_fewer_words_than_in_header(tmp_path):
    with pytest.raises(FormatError, match="is truncated: it ends after word 1 of 3"):
        read_word_vectors(write(tmp_path, "3 2\na 1 2\n"))


def test_read_word_vectors_rejects_missing_file_and_invalid_utf8(tmp_path):
    with pytest.raises(FormatError, match="Cannot read"):
        read_word_vectors(tmp_path / "none")
    (tmp_path / "damaged").write_bytes(b"a 1 2\n\xff\xff 1 2\n")
    with pytest.raises(FormatError, match="damaged, line 2 is not valid UTF-8"):
        read_word_vectors(tmp_path / "damaged")


# ------------------------------------------------------------------------------------------ binary


def write_binary(tmp_path, *, header=b"3 2\n", between=b"", words=("the", "\u00e9t\u00e9", "the")):
    vectors = struct.pack("<2f", 1, -0.5), struct.pack("<2f", 2, 32), struct.pack("<2f", 9, 9)
    path = tmp_path / "vectors.bin"
    pairs = zip(words, vectors, strict=True)
    path.write_bytes(header + b"".join(w.encode() + b" " + v + between for w, v in pairs))
    return path


def test_read_word_vectors_takes_dimensions_from_header(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\na 1 2\nb 3 4\n")
    with pytest.raises(
        FormatError, match=r"vectors.txt, line 2: expected a word and 3 finite values"
    ):
        read_word_vectors(path)


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_read_word_vectors_supports_binary_word2vec(tmp_path, between):
    loaded = read_word_vectors(write_binary(tmp_path, between=between), {"the"}, 5)
    assert (loaded.words, loaded.others) == (["the"], ["\u00e9t\u00e9"])
    assert (loaded.vectors.tolist(), loaded.other_vectors.tolist()) == ([[1, -0.5]], [[2, 32]])


def test_read_word_vectors_rejects_malformed_binary_file(tmp_path):
    with pytest.raises(FormatError, match="Cannot read"):
        read_word_vectors(tmp_path / "none.bin")
    for header in (b"", b"3\n", b"a 2\n", b"3 0\n"):
        with pytest.raises(FormatError, match="is not a binary word2vec file"):
            read_word_vectors(write_binary(tmp_path, header=header))
    with pytest.raises(FormatError, match="is truncated: it ends in word 4 of 4"):
        read_word_vectors(write_binary(tmp_path, header=b"4 2\n"))
    with pytest.raises(FormatError, match="word 2: expected a word and 2 finite values"):
        read_word_vectors(write_binary(tmp_path, words=("a", "", "b")))
    path = write_binary(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="is truncated: it ends in word 3 of 3"):
        read_word_vectors(path)
