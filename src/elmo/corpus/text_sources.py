"""Reading of files, globs and standard input as text blocks of bounded size.

The supported formats are plain text, JSON lines and Parquet; text and JSON lines can be compressed
(.gz, .bz2, .xz, .zst). A block always ends at the end of a line, so blocks can be processed
independently. Blocks contain bytes; the process that tokenizes them also decodes them.
"""

import glob
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elmo.corpus.compressed_files import READ_ERRORS, decompressed, plain_name
from elmo.errors import InputError, MissingExtra

STDIN = "-"
BLOCK_BYTES = 2**22
MAX_LINE_BYTES = 2**24
JSON_LINES = (".json", ".jsonl", ".ndjson")
PARQUET = ".parquet"
# Rows of a Parquet file in memory at a time.
PARQUET_ROWS = 256


@dataclass(frozen=True)
class Block:
    """A block of complete lines from one file.

    Attributes:
        label: File name for error messages.
        first_line: Line number of the first line, counted from 1.
        data: UTF-8 bytes of the lines.
        field: Name of the text field, if each line is a JSON record; None for plain text.
        n_read: Number of bytes read from the file for this block.
    """

    label: str
    first_line: int
    data: bytes
    field: str | None = None
    n_read: int = 0

    def lines(self) -> list[str]:
        """Return the decoded lines; the text of a JSON record can yield several lines."""
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.first_line + self.data[: error.start].count(b"\n")
            raise InputError(
                f"{self.label} is not UTF-8 in line {line}. Convert it first (iconv -t UTF-8)."
            ) from None
        lines = text.removesuffix("\n").split("\n")
        if self.field is None:
            return lines
        texts = (self._text(line, number) for number, line in enumerate(lines, self.first_line))
        return [line for text in texts if text for line in text.removesuffix("\n").split("\n")]

    def _text(self, line: str, number: int) -> str | None:
        """Return the text of a JSON record, or None for a blank line or a null text."""
        if not line.strip():
            return None
        location = f"{self.label}: line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{location} is not a JSON record: {error}") from None
        if not isinstance(record, dict) or self.field not in record:
            content = ", ".join(record) if isinstance(record, dict) else type(record).__name__
            raise InputError(
                f"{location} has no field {self.field!r} (found: {content[:200] or 'nothing'}). "
                "Set --text-field to the field that contains the text."
            )
        text = record[self.field]
        if text is not None and not isinstance(text, str):
            raise InputError(
                f"{location}: field {self.field!r} must be a string (got {type(text).__name__})."
            )
        # JSON escapes can encode lone surrogates, which UTF-8 cannot represent.
        return text and text.encode("utf-8", "replace").decode()


def resolve(inputs: Sequence[str]) -> list[str]:
    """Expand names and globs into file names; the files that match a glob are sorted.

    Args:
        inputs: File names, globs, and - for standard input.

    Raises:
        InputError: If a file does not exist, a glob matches no file, a name is a folder, or
            standard input is specified twice.
    """
    names: list[str] = []
    for name in inputs:
        if name == STDIN or os.path.lexists(name) or not glob.has_magic(name):
            names.append(name)
            continue
        matches = glob.glob(name, recursive=True)
        files = sorted(match for match in matches if os.path.isfile(match))
        if not files:
            raise InputError(f"No file matches {name}.")
        names += files
    for name in names:
        if name == STDIN:
            continue
        if os.path.isdir(name):
            raise InputError(f"{name} is a folder. Specify its files, for example '{name}/*.txt'.")
        if not os.path.exists(name):
            raise InputError(f"Cannot read {name}: no such file.")
    if names.count(STDIN) > 1:
        raise InputError("Standard input (-) is specified twice, but can be read only once.")
    return names


def total_bytes(names: Sequence[str]) -> int | None:
    """Return the total size of files in bytes, or None if any of them is not a regular file."""
    total = 0
    for name in names:
        if name == STDIN or not stat.S_ISREG((status := os.stat(name)).st_mode):
            return None
        total += status.st_size
    return total


def read_blocks(names: Sequence[str], text_field: str) -> Iterator[Block]:
    """Yield the blocks of files, one file after the other.

    Args:
        names: Files as returned by `resolve`.
        text_field: Name of the text field or column in JSON lines and Parquet files.
    """
    for name in names:
        if plain_name(name).lower().endswith(PARQUET):
            yield from _parquet_blocks(name, text_field)
            continue
        is_json = plain_name(name).lower().endswith(JSON_LINES)
        yield from _line_blocks(name, text_field if is_json else None)


def _line_blocks(name: str, field: str | None) -> Iterator[Block]:
    label = "standard input" if name == STDIN else name
    line, before = 1, 0
    try:
        with _opened(name) as raw, decompressed(name, raw) as file:
            seekable = raw.seekable()
            for data in whole_lines(file, label):
                # The UTF-8 byte order mark is not text.
                data = data.removeprefix(b"\xef\xbb\xbf") if line == 1 else data
                offset = raw.tell() if seekable else 0
                yield Block(label, line, data, field, offset - before)
                line, before = line + data.count(b"\n"), offset
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot read {label} after line {line - 1}: {reason}") from None


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin is None:  # closed before Python started
        raise InputError("Cannot read standard input: it is closed.")
    return nullcontext(sys.stdin.buffer)


def whole_lines(file: BinaryIO, label: str) -> Iterator[bytes]:
    """Yield blocks of complete lines, each of about `BLOCK_BYTES` bytes.

    Args:
        file: The open file.
        label: File name for error messages.
    """
    rest = b""
    while part := file.read(BLOCK_BYTES):
        cut = part.rfind(b"\n") + 1
        if not cut:
            rest += part
        else:
            yield rest + part[:cut]
            rest = part[cut:]
        _check_length(len(rest), label)
    if rest:
        yield rest


def _check_length(n_bytes: int, label: str) -> None:
    if n_bytes > MAX_LINE_BYTES:
        raise InputError(
            f"{label} has a line of more than {MAX_LINE_BYTES // 2**20} MB. Break it into shorter "
            "lines first (fold -s)."
        )


def _parquet_blocks(name: str, column: str) -> Iterator[Block]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(f"reading {name}", "parquet") from None
    try:
        with pyarrow.parquet.ParquetFile(name, pre_buffer=False) as file:
            schema = file.schema_arrow
            if column not in schema.names:
                raise InputError(
                    f"{name} has no column {column!r} (found: {', '.join(schema.names)[:200]}). "
                    "Set --text-field to the column that contains the text."
                )
            column_type = schema.field(column).type
            if "string" not in str(column_type):
                raise InputError(
                    f"{name}: column {column!r} must contain strings (got {column_type})."
                )
            row_bytes = os.path.getsize(name) / max(1, file.metadata.num_rows)
            yield from _joined(file.iter_batches(PARQUET_ROWS, columns=[column]), name, row_bytes)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {name}: {' '.join(str(error).split())[:200]}") from None


def _joined(batches: Iterator[Sequence[object]], name: str, row_bytes: float) -> Iterator[Block]:
    """Join the texts of Parquet rows into blocks of about `BLOCK_BYTES` bytes."""
    texts: list[bytes] = []
    size = n_rows = 0
    for batch in batches:
        for text in batch[0].to_pylist():  # type: ignore[attr-defined]
            n_rows += 1
            if text:
                texts.append(text.encode("utf-8").removesuffix(b"\n") + b"\n")
                size += len(texts[-1])
                _check_length(len(texts[-1]), name)
            if size >= BLOCK_BYTES:
                yield Block(name, 1, b"".join(texts), n_read=round(n_rows * row_bytes))
                texts, size, n_rows = [], 0, 0
    if texts:
        yield Block(name, 1, b"".join(texts), n_read=round(n_rows * row_bytes))
