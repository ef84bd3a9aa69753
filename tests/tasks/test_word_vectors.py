"""Files of static word vectors."""

import struct

import pytest
import torch

from elmo.errors import FormatError
from elmo.tasks.word_vectors import read_word_vectors

GLOVE = "the 1 2 3\nof -1 0.5 2e-1\n. . . 4 5 6\nthe 9 9 9\n\u00a0 7 8 9\n"


def write(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("first", ["", "5 3\n", "\ufeff", "\ufeff5 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_glove_and_word2vec(tmp_path, first, end):
    table = read_word_vectors(write(tmp_path, (first + GLOVE).replace("\n", end)))
    # A word may hold spaces; of two alike the first counts.
    assert table.words == ["the", "of", ". . .", "\u00a0"]
    expected = [[1, 2, 3], [-1, 0.5, 0.2], [4, 5, 6], [7, 8, 9]]
    torch.testing.assert_close(table.vectors, torch.tensor(expected))
    assert (table.others, table.other_vectors.shape) == ([], (0, 3))


def test_only_words_that_are_wanted(tmp_path):
    path = write(tmp_path, GLOVE)
    table = read_word_vectors(path, {"of", "none"})
    assert table.words == ["of"]
    assert table.vectors.shape == (1, 3)
    assert table.others == []
    with pytest.raises(FormatError, match="holds no vector of a word of the examples"):
        read_word_vectors(path, {"none"})


@pytest.mark.parametrize(("n_others", "expected"), [(1, ["the"]), (9, ["the", ". . .", "\u00a0"])])
def test_further_words_the_first_of_the_file(tmp_path, n_others, expected):
    table = read_word_vectors(write(tmp_path, GLOVE), {"of"}, n_others)
    assert table.words == ["of"]
    assert table.others == expected
    assert table.other_vectors.dtype == torch.float16
    assert table.other_vectors.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]][:n_others]


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
def test_a_broken_line(tmp_path, text, line):
    path = write(tmp_path, text)
    with pytest.raises(FormatError, match=rf"vectors.txt, line {line}: expected a word and \d num"):
        read_word_vectors(path)


def test_fewer_words_than_the_first_line_says(tmp_path):
    with pytest.raises(FormatError, match="ends after word 1 of 3: it is cut short"):
        read_word_vectors(write(tmp_path, "3 2\na 1 2\n"))


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(FormatError, match="cannot read"):
        read_word_vectors(tmp_path / "none")
    (tmp_path / "torn").write_bytes(b"a 1 2\n\xff\xff 1 2\n")
    with pytest.raises(FormatError, match="torn, line 2 is not UTF-8"):
        read_word_vectors(tmp_path / "torn")


# ------------------------------------------------------------------------------------------ binary


def binary(tmp_path, *, counts=b"3 2\n", between=b"", words=("the", "\u00e9t\u00e9", "the")):
    numbers = struct.pack("<2f", 1, -0.5), struct.pack("<2f", 2, 32), struct.pack("<2f", 9, 9)
    path = tmp_path / "vectors.bin"
    pairs = zip(words, numbers, strict=True)
    path.write_bytes(counts + b"".join(w.encode() + b" " + n + between for w, n in pairs))
    return path


def test_the_width_is_that_of_the_counts(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\na 1 2\nb 3 4\n")
    with pytest.raises(FormatError, match=r"vectors.txt, line 2: expected a word and 3 numbers"):
        read_word_vectors(path)


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_word2vec_binary(tmp_path, between):
    table = read_word_vectors(binary(tmp_path, between=between), {"the"}, 5)
    assert (table.words, table.others) == (["the"], ["\u00e9t\u00e9"])
    assert (table.vectors.tolist(), table.other_vectors.tolist()) == ([[1, -0.5]], [[2, 32]])


def test_a_broken_binary_file(tmp_path):
    with pytest.raises(FormatError, match="cannot read"):
        read_word_vectors(tmp_path / "none.bin")
    for counts in (b"", b"3\n", b"a 2\n", b"3 0\n"):
        with pytest.raises(FormatError, match="is no binary file of word2vec"):
            read_word_vectors(binary(tmp_path, counts=counts))
    with pytest.raises(FormatError, match="ends in word 4 of 4: it is cut short"):
        read_word_vectors(binary(tmp_path, counts=b"4 2\n"))
    with pytest.raises(FormatError, match="word 2: expected a word and 2 numbers"):
        read_word_vectors(binary(tmp_path, words=("a", "", "b")))
    path = binary(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="ends in word 3 of 3: it is cut short"):
        read_word_vectors(path)
