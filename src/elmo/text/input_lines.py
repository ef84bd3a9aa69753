"""Reading of lines, UTF-8 by default, from a file or from standard input (`-`)."""

import codecs
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from elmo.errors import ConfigError, InputError

STDIN = "-"
# First bytes of files that are not UTF-8 text, with what they are.
_COMPRESSED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_ZIP = b"PK\x03\x04"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def label_of(name: str) -> str:
    """Return the name of an input for error messages."""
    return "standard input" if name == STDIN else name


@contextmanager
def opened_input(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, in binary mode."""
    if name == STDIN:
        if sys.stdin is None:  # closed before Python started
            raise InputError("Cannot read standard input: it is closed.")
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")
    except OSError as error:
        raise InputError(f"Cannot read {name}: {error.strerror}") from None
    with file:
        yield file


def remedy_if_not_utf8(line: bytes, start: bytes, *, has_option: bool = False) -> str:
    """Return a sentence on how to read an input that is not UTF-8.

    `start` are the first bytes of the input; empty if unknown. `has_option` is whether the command
    has the option --encoding.
    """
    for magic, extension in _COMPRESSED.items():
        if start.startswith(magic):
            return f"It is compressed: decompress it, or add .{extension} to the file name."
    if start.startswith(_ZIP):
        return "It is a zip archive or a workbook: extract it, or export it as CSV or text."
    encoding = "UTF-16" if start.startswith(_UTF_16) else "ENCODING"
    if _is_cp949(line):
        encoding = "CP949"
    option = f"Set --encoding {encoding}, or convert" if has_option else "Convert"
    return f"{option} it first (iconv -f {encoding} -t UTF-8)."


def _is_cp949(line: bytes) -> bool:
    """Whether a line is Korean text in CP949, which includes EUC-KR."""
    try:
        text = line.decode("cp949")
    except UnicodeDecodeError:
        return False
    non_ascii = [character for character in text if character.isalpha() and not character.isascii()]
    n_hangul = sum("\uac00" <= character <= "\ud7a3" for character in non_ascii)
    return n_hangul > 0.9 * len(non_ascii)


def decoded_lines(file: BinaryIO, name: str, encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of an input as they are read, for commands with the option --encoding.

    Lines are only split at newline characters, which are not removed. The default encoding is
    UTF-8, or UTF-16 if the input begins with its byte order mark.
    """
    first = file.readline()
    if encoding is None and not first.startswith(_UTF_16):
        for number, data in enumerate(chain([first] if first else [], file), start=1):
            yield decoded_line(data, name, number, has_option=True)
        return
    encoding = encoding or "utf-16"
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise unknown_encoding(encoding) from None
    number, line = 1, ""
    # A newline byte can be the first half of another character, or the decoder can wait for the
    # second half of the newline.
    for data in chain([first], file, [b""]):
        try:
            line += decoder.decode(data, final=not data)
        except UnicodeError:
            raise InputError(
                f"{label_of(name)} is not {encoding}: line {number}. Set another --encoding."
            ) from None
        *complete, line = line.split("\n")
        for text in complete:
            yield f"{text}\n".removeprefix("\ufeff") if number == 1 else f"{text}\n"
            number += 1
    if line:
        yield line.removeprefix("\ufeff") if number == 1 else line


def unknown_encoding(name: str) -> ConfigError:
    """Return the error for an unknown encoding."""
    return ConfigError(
        f"Unknown encoding {name!r}. Use an encoding such as utf-8, cp949 or latin-1."
    )


def decoded_line(data: bytes, name: str, number: int, *, has_option: bool = False) -> str:
    """Decode a line from UTF-8 without byte order mark; errors name --encoding if it exists."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{label_of(name)} is not UTF-8: line {number}, byte {error.start + 1} of the line. "
            f"{remedy_if_not_utf8(data, data if number == 1 else b'', has_option=has_option)}"
        ) from None
    # The byte order mark is not text.
    return text.removeprefix("\ufeff") if number == 1 else text
