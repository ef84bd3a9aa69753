"""Tests for opening inputs and decoding their lines."""

import bz2
import gzip
import io
import lzma
import re
import sys
from types import SimpleNamespace

import pytest

from elmo.errors import ConfigError, InputError
from elmo.text.input_lines import (
    decoded_line,
    decoded_lines,
    label_of,
    opened_input,
    remedy_if_not_utf8,
)


def test_opened_input_reads_files_and_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_bytes(b"one\ntwo\n")
    with opened_input(str(path)) as file:
        assert list(file) == [b"one\n", b"two\n"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"three")))
    with opened_input("-") as file:
        assert file.read() == b"three"
    assert (label_of("-"), label_of("a")) == ("standard input", "a")


def test_opened_input_rejects_unreadable_input(tmp_path, monkeypatch):
    with (
        pytest.raises(InputError, match=r"Cannot read .*none: No such"),
        opened_input(str(tmp_path / "none")),
    ):
        pass
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="it is closed"), opened_input("-"):
        pass


def test_decoded_line_removes_byte_order_mark_and_rejects_other_encodings():
    assert decoded_line("\ufeffa\n".encode(), "t", 1) == "a\n"
    assert decoded_line("\ufeffa\n".encode(), "t", 2) == "\ufeffa\n"
    with pytest.raises(InputError, match="standard input is not UTF-8: line 3, byte 2"):
        decoded_line(b"a\xff", "-", 3)


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        # Without its time, by which the names of the tests would differ between processes.
        (gzip.compress(b"text", mtime=0), "add .gz to the file name"),
        (bz2.compress(b"text"), "add .bz2 to the file name"),
        (lzma.compress(b"text"), "add .xz to the file name"),
        ("text".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        (b"PK\x03\x04\xff", "export it as CSV"),
        (b"caf\xe9", "iconv -f ENCODING -t UTF-8"),
        ("학교에 갔다.".encode("cp949"), "iconv -f CP949 -t UTF-8"),
        ("ce café est à côté".encode("latin-1"), "iconv -f ENCODING -t UTF-8"),
        ("日本の学校".encode("shift-jis"), "iconv -f ENCODING -t UTF-8"),
    ],
)
def test_remedy_for_input_that_is_not_utf8_depends_on_its_first_bytes(start, remedy):
    assert remedy in remedy_if_not_utf8(start, start)
    with pytest.raises(InputError, match=re.escape(remedy)):
        decoded_line(start, "in.txt", 1)


@pytest.mark.parametrize(
    ("encoding", "option"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("cp949", "cp949"),
        ("utf-16", "utf16"),
    ],
)
@pytest.mark.parametrize("text", ["가", "가\r\n\n나\u2028다\n", "\n上\u0a0a\n\u0a00"])
def test_decoded_lines_yields_lines_of_any_encoding(encoding, option, text):
    if encoding == "cp949":
        text = text.encode("cp949", "ignore").decode("cp949")
    lines = decoded_lines(io.BytesIO(text.encode(encoding)), "in.txt", option)
    assert list(lines) == text.replace("\n", "\n\0").rstrip("\0").split("\0")
    assert not list(decoded_lines(io.BytesIO(), "in.txt", option))


@pytest.mark.parametrize(
    ("data", "encoding", "error", "message"),
    [
        (
            "a\n학교에".encode("cp949"),
            None,
            InputError,
            "line 2, .*Set --encoding CP949, or convert",
        ),
        ("a\n각하\n".encode(), "ascii", InputError, "in.txt is not ascii: line 2"),
        (b"a", "none", ConfigError, "Unknown encoding 'none'"),
    ],
)
def test_decoded_lines_rejects_another_encoding(data, encoding, error, message):
    with pytest.raises(error, match=message):
        list(decoded_lines(io.BytesIO(data), "in.txt", encoding))
