"""Reading of files and standard input as blocks of complete lines, in bounded memory.

Files can be compressed (.gz, .bz2, .xz, .zst). A block always ends at the end of a line, so blocks
can be processed independently. Blocks contain bytes; they are decoded where they are processed.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elmo.corpus.compressed_files import READ_ERRORS, decompressed
from elmo.errors import InputError
from elmo.text.input_lines import STDIN, label_of, remedy_if_not_utf8

BLOCK_BYTES = 2**22
MAX_LINE_BYTES = 2**24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """A block of complete lines: UTF-8 bytes without the byte order mark of the file.

    Lines are counted from 1. `n_read` bytes of the file were read for this block; 0 if the file is
    not seekable.
    """

    first_line: int
    data: bytes
    n_read: int = 0


def line_blocks(name: str, prefix: bytes | None = None) -> Iterator[LineBlock]:
    """Yield the blocks of a file, or of standard input for `-`.

    If the file starts with the prefix, only one block is yielded, which consists of it. This
    detects a binary format without searching the file for line ends.
    """
    label = label_of(name)
    line, before = 1, 0
    try:
        with _opened(name) as raw, decompressed(name, raw) as file:
            start = file.read(len(prefix)) if prefix else b""
            if prefix and start == prefix:
                yield LineBlock(line, start)
                return
            seekable = raw.seekable()
            for data in whole_lines(file, label, start):
                # The UTF-8 byte order mark is not text.
                data = data.removeprefix(BYTE_ORDER_MARK) if line == 1 else data
                offset = raw.tell() if seekable else 0
                yield LineBlock(line, data, offset - before)
                line, before = line + data.count(b"\n"), offset
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        position = f" after line {line - 1}" if line > 1 else ""
        raise InputError(f"Cannot read {label}{position}: {reason}") from None


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin is None:  # closed before Python started
        raise InputError("Cannot read standard input: it is closed.")
    return nullcontext(sys.stdin.buffer)


def whole_lines(file: BinaryIO, label: str, rest: bytes = b"") -> Iterator[bytes]:
    """Yield blocks of complete lines, each of about `BLOCK_BYTES` bytes, `rest` first."""
    while part := file.read(BLOCK_BYTES):
        cut = part.rfind(b"\n") + 1
        if not cut:
            rest += part
        else:
            yield rest + part[:cut]
            rest = part[cut:]
        check_length(len(rest), label)
    if rest:
        yield rest


def decoded_lines(block: LineBlock, label: str) -> list[str]:
    """Return the lines of a block, without their line ends."""
    try:
        text = block.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = block.first_line + block.data[: error.start].count(b"\n")
        start = block.data[:8] if block.first_line == 1 else b""
        data = block.data.split(b"\n")[line - block.first_line]
        raise InputError(
            f"{label} is not UTF-8 in line {line}. {remedy_if_not_utf8(data, start)}"
        ) from None
    return text.removesuffix("\n").split("\n")


def check_length(n_bytes: int, label: str) -> None:
    """Raise an error if a line or text is too long to be processed in bounded memory."""
    if n_bytes > MAX_LINE_BYTES:
        raise InputError(
            f"{label} has a line of more than {MAX_LINE_BYTES // 2**20} MB. Break it into shorter "
            "lines first (fold -s)."
        )
