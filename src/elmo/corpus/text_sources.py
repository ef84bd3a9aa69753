"""Files, globs and standard input to blocks of text of bounded size.

Plain text, .gz .bz2 .xz .zst, JSON lines and Parquet. A block ends at the end of a line, so blocks
can be worked on apart. It is bytes still: decoding is work for whoever splits it.
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
# Rows of a Parquet file that are held at once.
PARQUET_ROWS = 256


@dataclass(frozen=True)
class Block:
    """Whole lines of one file.

    Attributes:
        label: the file, for messages.
        first_line: number of the first line, from 1.
        data: UTF-8.
        field: of the JSON record on each line that holds the text; None where lines are text.
        n_read: bytes of the file that were read for this block.
    """

    label: str
    first_line: int
    data: bytes
    field: str | None = None
    n_read: int = 0

    def lines(self) -> list[str]:
        """Decode the lines; a text inside a record may hold several."""
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.first_line + self.data[: error.start].count(b"\n")
            raise InputError(
                f"{self.label} is not UTF-8 in line {line}; convert it first (iconv -t UTF-8)"
            ) from None
        lines = text.removesuffix("\n").split("\n")
        if self.field is None:
            return lines
        texts = (self._text(line, number) for number, line in enumerate(lines, self.first_line))
        return [line for text in texts if text for line in text.removesuffix("\n").split("\n")]

    def _text(self, line: str, number: int) -> str | None:
        """Give the text of a record; None where it has none."""
        if not line.strip():
            return None
        where = f"{self.label}: line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is no JSON record: {error}") from None
        if not isinstance(record, dict) or self.field not in record:
            found = ", ".join(record) if isinstance(record, dict) else type(record).__name__
            raise InputError(
                f"{where} has no field {self.field!r}, found {found[:200] or 'nothing'}: name the "
                "field that holds the text with --text-field"
            )
        text = record[self.field]
        if text is not None and not isinstance(text, str):
            raise InputError(f"{where}: {self.field} is {type(text).__name__}, expected a string")
        # JSON can spell halves of surrogate pairs, which no UTF-8 file can hold.
        return text and text.encode("utf-8", "replace").decode()


def resolve(inputs: Sequence[str]) -> list[str]:
    """Give the files that names and globs mean, each glob's in sorted order; refuse what is not."""
    names: list[str] = []
    for name in inputs:
        if name == STDIN or os.path.lexists(name) or not glob.has_magic(name):
            names.append(name)
            continue
        found = sorted(match for match in glob.glob(name, recursive=True) if os.path.isfile(match))
        if not found:
            raise InputError(f"no file matches {name}")
        names += found
    for name in names:
        if name == STDIN:
            continue
        if os.path.isdir(name):
            raise InputError(f"{name} is a folder; name its files, such as '{name}/*.txt'")
        if not os.path.exists(name):
            raise InputError(f"cannot read {name}: there is no such file")
    if names.count(STDIN) > 1:
        raise InputError("standard input (-) is named twice; it can be read once")
    return names


def total_bytes(names: Sequence[str]) -> int | None:
    """Count the bytes of files on the disk; None where one of them is no plain file."""
    total = 0
    for name in names:
        if name == STDIN or not stat.S_ISREG((status := os.stat(name)).st_mode):
            return None
        total += status.st_size
    return total


def read_blocks(names: Sequence[str], text_field: str) -> Iterator[Block]:
    """Read files one after the other.

    Args:
        names: as `resolve` gives them.
        text_field: field or column that holds the text, in JSON lines and Parquet.
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
                # The mark some editors begin a file with is no text.
                data = data.removeprefix(b"\xef\xbb\xbf") if line == 1 else data
                place = raw.tell() if seekable else 0
                yield Block(label, line, data, field, place - before)
                line, before = line + data.count(b"\n"), place
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {label} beyond line {line - 1}: {reason}") from None


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin is None:  # so Python tells of one that was closed before it began
        raise InputError("cannot read standard input: it is closed")
    return nullcontext(sys.stdin.buffer)


def whole_lines(file: BinaryIO, label: str) -> Iterator[bytes]:
    """Read about `BLOCK_BYTES` at a time, up to the end of a line.

    Args:
        file: the text.
        label: what to call it in a message.
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
            f"{label} has a line of more than {MAX_LINE_BYTES // 2**20} MB; break it into lines "
            "first (fold -s)"
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
                    f"{name} has no column {column!r}, found {', '.join(schema.names)[:200]}: name "
                    "the column that holds the text with --text-field"
                )
            kind = schema.field(column).type
            if "string" not in str(kind):
                raise InputError(f"{name}: column {column} holds {kind}, expected strings")
            row_bytes = os.path.getsize(name) / max(1, file.metadata.num_rows)
            yield from _joined(file.iter_batches(PARQUET_ROWS, columns=[column]), name, row_bytes)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())[:200]}") from None


def _joined(batches: Iterator[Sequence[object]], name: str, row_bytes: float) -> Iterator[Block]:
    """Put the texts of rows together until they fill a block."""
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
