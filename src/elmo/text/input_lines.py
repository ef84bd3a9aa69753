"""Reading of UTF-8 lines from a file or from standard input (`-`)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elmo.errors import InputError

STDIN = "-"


def label_of(name: str) -> str:
    """Return the name of an input for error messages."""
    return "standard input" if name == STDIN else name


@contextmanager
def opened_input(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, in binary mode.

    Args:
        name: Path to the file, or `-`.

    Raises:
        InputError: If the input cannot be read.
    """
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


def decoded_line(data: bytes, name: str, number: int) -> str:
    """Decode a line from UTF-8 and remove a byte order mark; the line ending is not removed.

    Args:
        data: UTF-8 bytes of the line.
        name: Name of the input, for error messages.
        number: Line number, counted from 1.

    Raises:
        InputError: If the line is not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{label_of(name)} is not UTF-8: line {number}, byte {error.start + 1} of the line. "
            "Convert it first (iconv -f ENCODING -t UTF-8)."
        ) from None
    # The byte order mark is not text.
    return text.removeprefix("\ufeff") if number == 1 else text
