"""Bytes to lines: encodings, packed files, and what is no text."""

import gzip

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.readers.text_lines import lines_of, read_lines, read_text

TEXT = "한국어 naïve\r\n日本 😀\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_found_out(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes(TEXT.encode(encoding))
    assert read_lines(path) == ["한국어 naïve", "日本 😀"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp949"])
def test_stated(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes("한국어\n".encode(encoding))
    assert read_lines(path, encoding) == ["한국어"]


def test_a_mark_is_no_text_though_the_encoding_is_stated(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("a\n".encode("utf-8-sig"))
    assert read_lines(path, "utf-8") == ["a"]


def test_big_endian_with_its_mark(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xfe\xff" + "한\n국\n".encode("utf-16-be"))
    assert read_lines(path) == ["한", "국"]


def test_packed(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_text(path) == TEXT
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(FormatError, match=r"cannot read .*text.gz"):
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
def test_lines(text, lines):
    assert lines_of(text) == lines


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        ("a\n한국\n".encode("cp949"), None, r"text, line 2 is not utf-8: name its --encoding"),
        ("a\nb\n".encode("utf-16")[:-1], None, r"text, line 2 is not utf-16"),
        ("한\n".encode(), "ascii", "text, line 1 is not ascii"),
        (b"a\n\xff\n\n", "utf-16", "text, line 1 is not utf-16"),
        ("a\nb\n".encode("utf-16-le"), None, "line 1 holds a zero byte"),
        (b"a\nb\0", None, "line 2 holds a zero byte"),
    ],
)
def test_no_text(tmp_path, data, encoding, message):
    path = tmp_path / "text"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        read_text(path, encoding)


def test_no_file_and_no_encoding(tmp_path):
    with pytest.raises(FormatError, match=r"cannot read .*none.txt: No such file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(FormatError, match=r"cannot read"):
        read_text(tmp_path)
    (tmp_path / "text").write_bytes(b"a")
    with pytest.raises(ConfigError, match="no encoding 'utf-9'"):
        read_text(tmp_path / "text", "utf-9")


def test_carriage_returns_alone_end_no_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a O\rb O\r\rc O\r")
    with pytest.raises(FormatError, match=r"text, line 1 has carriage returns and no line ends"):
        read_lines(path)
