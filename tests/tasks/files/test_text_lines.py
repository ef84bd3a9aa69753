"""Tests for reading text files: encodings, compressed files and invalid files."""

import gzip

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.files.text_lines import numbered_lines, read_lines, read_text, split_lines

TEXT = "한국어 naïve\r\n日本 😀\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_read_lines_detects_encoding(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes(TEXT.encode(encoding))
    assert read_lines(path) == ["한국어 naïve", "日本 😀"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp949"])
def test_read_lines_uses_explicit_encoding(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes("한국어\n".encode(encoding))
    assert read_lines(path, encoding) == ["한국어"]


def test_read_lines_removes_byte_order_mark_with_explicit_encoding(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("a\n".encode("utf-8-sig"))
    assert read_lines(path, "utf-8") == ["a"]


def test_read_lines_detects_big_endian_utf16(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xfe\xff" + "한\n국\n".encode("utf-16-be"))
    assert read_lines(path) == ["한", "국"]


def test_read_text_decompresses_gzip(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_text(path) == TEXT
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(FormatError, match=r"Cannot read .*text.gz"):
        read_text(path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("\n", [""]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb", ["a", "b"]),
        ("a\u2028b\x0bc\x85d\n", ["a\u2028b\x0bc\x85d"]),
    ],
)
def test_split_lines_splits_at_newlines_only(text, lines):
    assert split_lines(text) == lines


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        ("a\n한국\n".encode("cp949"), None, r"2: not valid utf-8. Set --encoding CP949, .*CP949"),
        ("한국어로\n".encode(), "cp949", r"not valid cp949. The file is UTF-8: omit --encoding"),
        ("a\nb\n".encode("utf-16")[:-1], None, r"text, line 2: not valid utf-16"),
        ("한\n".encode(), "ascii", "text, line 1: not valid ascii"),
        (b"a\n\xff\n\n", "utf-16", "text, line 1: not valid utf-16"),
        ("a\nb\n".encode("utf-16-le"), None, "line 1: contains a zero byte"),
        (b"a\nb\0", None, "line 2: contains a zero byte"),
    ],
)
def test_read_text_rejects_undecodable_file(tmp_path, data, encoding, message):
    path = tmp_path / "text"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        read_text(path, encoding)


def test_read_text_rejects_missing_file_and_unknown_encoding(tmp_path):
    with pytest.raises(FormatError, match=r"Cannot read .*none.txt: No such file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(FormatError, match=r"Cannot read"):
        read_text(tmp_path)
    (tmp_path / "text").write_bytes(b"a")
    with pytest.raises(ConfigError, match="Unknown encoding 'utf-9'"):
        read_text(tmp_path / "text", "utf-9")


def test_read_lines_rejects_carriage_return_line_endings(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a O\rb O\r\rc O\r")
    with pytest.raises(
        FormatError, match=r"text, line 1: the lines end with carriage returns only"
    ):
        read_lines(path)


def test_numbered_lines_strips_byte_order_mark_and_line_endings(tmp_path):
    (tmp_path / "text").write_bytes("\ufefféén\r\n\ntwee\u2028x".encode())
    assert list(numbered_lines(tmp_path / "text")) == [(1, "één"), (2, ""), (3, "twee\u2028x")]


def test_numbered_lines_rejects_missing_and_non_utf8_files(tmp_path):
    with pytest.raises(FormatError, match=r"Cannot read .*none: No such file"):
        list(numbered_lines(tmp_path / "none"))
    (tmp_path / "invalid").write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(FormatError, match=r"invalid, line 2 is not valid UTF-8\. Convert the file"):
        list(numbered_lines(tmp_path / "invalid"))
