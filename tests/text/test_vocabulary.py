"""Tests for vocabulary files and their known problems."""

import gzip
import logging

import pytest

from elmo.errors import FormatError
from elmo.text.vocabulary import Vocabulary

PLAIN = b"<S>\n</S>\n<UNK>\nthe\ncat\n"


def test_load_reads_text_file(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_bytes(PLAIN)
    vocabulary = Vocabulary.load(path)
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the", "cat")
    assert vocabulary.ids["cat"] == 4
    assert len(vocabulary) == 5
    assert vocabulary.problems() == []
    assert caplog.records == []
    vocabulary.require_special_tokens()


def test_words_of_white_space_are_not_stripped(tmp_path):
    words = ("<S>", "</S>", "<UNK>", " ", "\t", "\u3000", "\x85", "\u2028", "a")
    vocabulary = Vocabulary.parse(Vocabulary(words).to_bytes(), "vocab.txt")
    assert vocabulary.words == words
    # Line ends with a carriage return and white space around other words are still ignored.
    assert Vocabulary.parse(b" a \r\n \r\n\r\n", "vocab.txt").words == ("a", " ", "")


def test_load_reads_gzipped_file(tmp_path):
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress(PLAIN))
    assert Vocabulary.load(path).words == Vocabulary.parse(PLAIN, "vocab.txt").words


def test_load_accepts_swapped_boundary_tokens(golden_path):
    vocabulary = Vocabulary.load(golden_path("bilm-tf/data/vocab_test.txt"))
    assert len(vocabulary) == 100
    assert [vocabulary.ids[word] for word in ("</S>", "<S>", "<UNK>", "the")] == [0, 1, 2, 3]
    assert vocabulary.problems() == []


def test_require_special_tokens_accepts_any_order():
    Vocabulary(["the", "</S>", "<UNK>", "cat", "<S>"]).require_special_tokens()


@pytest.mark.parametrize("missing", ["<S>", "</S>", "<UNK>"])
def test_missing_special_token_is_reported_and_rejected_for_training(tmp_path, caplog, missing):
    words = [word for word in ("<S>", "</S>", "<UNK>", "the", "last") if word != missing]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(words) + "\n")
    with caplog.at_level(logging.WARNING):
        vocabulary = Vocabulary.load(path)
    # bilm-tf overwrites the last word in this case.
    assert vocabulary.words[-1] == "last"
    assert vocabulary.ids["last"] == 3
    assert missing not in vocabulary.ids
    assert [text for text in vocabulary.problems() if f"has no {missing}." in text]
    with pytest.raises(
        FormatError, match=f"has no {missing}. Its first three lines should be <S> </S> <UNK>"
    ):
        vocabulary.require_special_tokens()


def test_repeated_word_has_id_of_its_last_line():
    vocabulary = Vocabulary.parse(PLAIN + b"the\ndog\nthe\n", "v.txt")
    assert len(vocabulary) == 8
    assert vocabulary.ids["the"] == 7
    assert vocabulary.ids["dog"] == 6
    assert vocabulary.words[3] == vocabulary.words[5] == "the"
    assert vocabulary.problems() == [
        "The vocabulary repeats 2 words. The last line of each repeated word determines its id."
    ]


def test_single_repeated_word_is_reported_in_singular():
    (problem,) = Vocabulary.parse(PLAIN + b"the\n", "v.txt").problems()
    assert "repeats 1 word." in problem


def test_maxtermid_line_is_skipped():
    vocabulary = Vocabulary.parse(b"<S>\n</S>\n!!!MAXTERMID\n<UNK>\n !!!MAXTERMID \nthe\n", "v")
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the")
    assert vocabulary.ids["the"] == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ()),
        (b"a", ("a",)),
        (b"a\nb", ("a", "b")),
        (b"a\r\nb\r\n", ("a", "b")),
        (b" a\t\n", ("a",)),
        # A blank line is an empty word with an id.
        (b"a\n\nb\n", ("a", "", "b")),
        (b"a\n\n", ("a", "")),
        # A line of white space is a word of a tokenizer that keeps white space.
        ("a\n\u3000\nb\n".encode(), ("a", "\u3000", "b")),
        ("a\n\u3000".encode(), ("a", "\u3000")),
        ("\u00a0a\u3000\n".encode(), ("a",)),
        # Only line feeds end lines.
        ("a\u2028b\nc\u0085d\ne\x0bf\n".encode(), ("a\u2028b", "c\u0085d", "e\x0bf")),
        ("日本\n😀\n".encode(), ("日本", "😀")),
        (b"two words\n", ("two words",)),
    ],
)
def test_parse_splits_at_newlines_and_strips_white_space(data, words):
    assert Vocabulary.parse(data, "vocab.txt").words == words


def test_parse_error_for_other_encoding_names_the_line():
    with pytest.raises(FormatError, match=r"vocabulary v\.txt is not UTF-8 at line 3\.$"):
        Vocabulary.parse(b"<S>\n</S>\nna\xefve\n", "v.txt")


def truncated(data):
    return data[: len(data) // 2]


def corrupted(data):
    # Inside the compressed data, after the header.
    return data[:12] + bytes(byte ^ 0xFF for byte in data[12:20]) + data[20:]


def wrong_checksum(data):
    return data[:-8] + b"\0\0\0\0" + data[-4:]


@pytest.mark.parametrize("damage", [truncated, corrupted, wrong_checksum, lambda data: PLAIN])
def test_parse_rejects_damaged_gzip_data(damage):
    data = damage(gzip.compress(PLAIN * 50))
    with pytest.raises(FormatError, match=r"vocabulary v\.txt\.gz is not a complete gzip file"):
        Vocabulary.parse(data, "v.txt.gz")


def test_load_rejects_missing_file_and_folder(tmp_path):
    with pytest.raises(FormatError, match=r"Cannot read the vocabulary .*none\.txt: No such file"):
        Vocabulary.load(tmp_path / "none.txt")
    with pytest.raises(FormatError, match=r"Cannot read the vocabulary .*: Is a directory"):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize("words", [(), ("a",), ("<S>", "", "日本", "a"), ("",), ("a", "a")])
def test_vocabulary_round_trips_through_to_bytes_and_parse(words):
    data = Vocabulary(words).to_bytes()
    assert Vocabulary.parse(data, "vocab.txt").words == words
