"""Texts that come line by line, from a file or from standard input (`-`), in UTF-8."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elmo.errors import InputError

STDIN = "-"


def label_of(name: str) -> str:
    """Give what an input is called in messages."""
    return "standard input" if name == STDIN else name


@contextmanager
def opened_input(name: str) -> Iterator[BinaryIO]:
    """Open an input; one that cannot be read is an `InputError`."""
    if name == STDIN:
        if sys.stdin is None:  # so Python tells of one that was closed before it began
            raise InputError("cannot read standard input: it is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    with file:
        yield file


def decoded_line(data: bytes, name: str, number: int) -> str:
    """Decode a line, its end included; what is not UTF-8 is refused with its place.

    Args:
        data: the line.
        name: of the input.
        number: of the line, from 1.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{label_of(name)} is not UTF-8: line {number}, byte {error.start + 1} of the line; "
            "convert it first (iconv -t UTF-8)"
        ) from None
    # The mark some editors begin a file with.
    return text.removeprefix("\ufeff") if number == 1 else text
