"""Reading of files, globs and standard input as text blocks of bounded size.

Plain text and JSON lines are cut into blocks of complete lines, which another process decodes and
parses. The texts of CSV, TSV and Parquet files are joined into blocks of plain text.
"""

import glob
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo.config import InputFormat, ReadingConfig
from elmo.corpus import line_blocks
from elmo.corpus.input_records import InputFile, InputRecord, parse_json_record
from elmo.corpus.line_blocks import LineBlock, check_length, decoded_lines
from elmo.errors import InputError, listing
from elmo.text.input_lines import STDIN, label_of

logger = logging.getLogger(__name__)

# Option that selects the text in a record, for error messages.
TEXT_OPTION = "--text-column"


@dataclass(frozen=True)
class Block:
    """A block of complete lines from one file: UTF-8 bytes, with lines counted from 1.

    `field` is the name of the text field if each line is a JSON record; None for plain text.
    `n_read` bytes of the file were read for this block.
    """

    label: str
    first_line: int
    data: bytes
    field: str | None = None
    n_read: int = 0

    def lines(self) -> list[str]:
        """Return the decoded lines; the text of a JSON record can yield several lines."""
        lines = decoded_lines(LineBlock(self.first_line, self.data), self.label)
        if self.field is None:
            return lines
        texts = (self._text(line, number) for number, line in enumerate(lines, self.first_line))
        return [line for text in texts if text for line in text.removesuffix("\n").split("\n")]

    def _text(self, line: str, number: int) -> str | None:
        """Return the text of a JSON record, or None for a blank line or a null text."""
        if not line.strip():
            return None
        assert self.field is not None
        location = f"{self.label}: line {number}"
        values = parse_json_record(line, location, {self.field: TEXT_OPTION})
        return InputRecord(location, number, values).text(self.field)


def resolve(inputs: Sequence[str]) -> list[str]:
    """Expand names and globs into file names; the files that match a glob are sorted.

    A missing file, a glob without files, a folder, and two times standard input (`-`) are errors.
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


def read_blocks(
    names: Sequence[str], text_column: str, input_format: InputFormat | None = None
) -> Iterator[Block]:
    """Yield the blocks of files, one file after the other.

    A warning is logged if the text column is not the default and all files are plain text, which
    has no fields. By default, the format of each file is recognized.
    """
    formats = set()
    has_warned = False
    for name in names:
        file = InputFile(name, input_format)
        formats.add(file.format)
        if file.table_format and not has_warned:
            file.warn_about_table()
            has_warned = True
        if file.format in ("text", "jsonl"):
            field = text_column if file.format == "jsonl" else None
            for block in file.blocks():
                yield Block(file.label, block.first_line, block.data, field, block.n_read)
        else:
            yield from _joined_texts(file, text_column)
    if formats == {"text"} and text_column != ReadingConfig().text_column:
        logger.warning(
            "%s: the input is plain text, so %s %s has no effect. If it consists of records, "
            "specify their format with --input-format.",
            listing([label_of(name) for name in names], 3),
            TEXT_OPTION,
            text_column,
        )


def _joined_texts(file: InputFile, column: str) -> Iterator[Block]:
    """Join the texts of a table into blocks of about `BLOCK_BYTES` bytes."""
    texts: list[bytes] = []
    size = before = 0
    for record in file.records({column: TEXT_OPTION}):
        if text := record.text(column):
            texts.append(text.encode("utf-8").removesuffix(b"\n") + b"\n")
            size += len(texts[-1])
            check_length(len(texts[-1]), file.label)
        if size >= line_blocks.BLOCK_BYTES:
            yield Block(file.label, 1, b"".join(texts), n_read=file.n_read - before)
            texts, size, before = [], 0, file.n_read
    if texts:
        yield Block(file.label, 1, b"".join(texts), n_read=file.n_read - before)
