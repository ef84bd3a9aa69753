"""Reading of input files of all formats as records with named values, in bounded memory.

`InputFile` recognizes the format of a file. Its records are the lines of plain text, the objects of
JSON lines, or the rows of CSV, TSV and Parquet files.
"""

import csv
import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from elmo.config import InputFormat
from elmo.corpus import line_blocks
from elmo.corpus.compressed_files import plain_name
from elmo.corpus.input_format import (
    PARQUET_START,
    format_of_content,
    format_of_name,
    table_format,
)
from elmo.corpus.line_blocks import LineBlock, decoded_lines
from elmo.errors import InputError, MissingExtra, listing, shortened
from elmo.text.column_names import matching_name
from elmo.text.input_lines import STDIN, label_of

logger = logging.getLogger(__name__)

# Name of the value of a record if the file is plain text.
TEXT = "text"
# Rows of a Parquet file in memory at a time.
PARQUET_ROWS = 256
# Column names shown in an error message.
MAX_LISTED = 12


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record of an input file.

    `number` is that of the line on which the record ends, counted from 1, or of the row in a
    Parquet file. Values of text, CSV and TSV are strings; those of JSON lines and Parquet have the
    types of the file.
    """

    location: str
    number: int
    values: Mapping[str, object]

    def text(self, column: str) -> str | None:
        """Return the text in a column, or None if it is null; other values are an error."""
        text = self.values[column]
        if text is None:
            return None
        if not isinstance(text, str):
            raise InputError(
                f"{self.location}: the value of {column!r} must be a string (got "
                f"{type(text).__name__})."
            )
        # JSON escapes can encode lone surrogates, which UTF-8 cannot represent.
        return text.encode("utf-8", "replace").decode()


class InputFile:
    """An input file with its format, which is recognized when the object is created.

    The content can be read once, either as blocks of lines or as records.

    Attributes:
        label: File name for messages.
        format: Format of the file.
        n_read: Number of bytes read so far; 0 if the file is not seekable.
        table_format: "csv" or "tsv" if the format was not stated and the file is read as plain text
            although it looks like such a table; else None.
    """

    def __init__(self, name: str, input_format: InputFormat | None = None) -> None:
        """Open a file, or standard input for `-`; the name or the content shows its format."""
        self.name = name
        self.label = label_of(name)
        self.n_read = 0
        self._blocks: Iterator[LineBlock] = iter(())
        self.table_format: InputFormat | None = None
        known = input_format or format_of_name(name)
        if known != "parquet":
            blocks = line_blocks.line_blocks(name, None if known else PARQUET_START)
            first = list(islice(blocks, 1))
            self._blocks = chain(first, blocks)
            if known is None:
                data = first[0].data if first else b""
                known = format_of_content(data, self.label)
                self.table_format = table_format(data) if known == "text" else None
        self.format: InputFormat = known

    def warn_about_table(self) -> None:
        """Log that the file is read as plain text although it looks like a table."""
        logger.warning(
            "%s is read as plain text, but looks like a table with a header. If it is one, use "
            "--input-format %s; if not, --input-format text.",
            self.label,
            self.table_format,
        )

    def blocks(self) -> Iterator[LineBlock]:
        """Yield blocks of complete lines of a file that is not in Parquet format."""
        for block in self._blocks:
            self.n_read += block.n_read
            yield block

    def records(self, columns: Mapping[str, str] | None = None) -> Iterator[InputRecord]:
        """Yield the records of the file.

        Blank lines between the records of JSON lines, CSV and TSV are skipped. A line of plain text
        is a record with the column `text`, even if it is blank. The given columns are required,
        each with the option that selects it, for error messages; in JSON lines it is enough if the
        first record has them. From Parquet files, only these columns are read; by default, all are
        read.
        """
        required = dict(columns or {})
        if self.format == "parquet":
            return self._parquet_records(required, columns is None)
        if self.format == "jsonl":
            return self._json_records(required)
        if self.format == "text":
            return self._text_records(required)
        return self._table_records(required)

    def _text_records(self, required: dict[str, str]) -> Iterator[InputRecord]:
        for number, line in self._lines():
            for column, option in required.items() if number == 1 else ():
                if column != TEXT:
                    raise self.no_columns(f"{option} {column}")
            yield InputRecord(f"{self.label}: line {number}", number, {TEXT: line})

    def no_columns(self, option: str) -> InputError:
        """Return the error for an option that names a column of a file of plain text."""
        return InputError(
            f"{self.label} is read as plain text, which has no columns, but {option} is given. "
            f"Specify its format (--input-format {self.table_format or 'csv, tsv or jsonl'}), or "
            "omit the option."
        )

    def _json_records(self, required: dict[str, str]) -> Iterator[InputRecord]:
        """Yield JSON records; a field that is missing after the first record counts as null."""
        nulls: dict[str, None] = {}
        for number, line in self._lines():
            if line.strip():
                location = f"{self.label}: line {number}"
                values = parse_json_record(line, location, required, is_first=not nulls)
                nulls = nulls or dict.fromkeys(required)
                yield InputRecord(location, number, nulls | values)

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield line numbers and lines, without line ends."""
        for block in self.blocks():
            lines = decoded_lines(block, self.label)
            yield from (
                (number, line.removesuffix("\r"))
                for number, line in enumerate(lines, block.first_line)
            )

    def _table_records(self, required: dict[str, str]) -> Iterator[InputRecord]:
        rows = self._csv_rows() if self.format == "csv" else self._tsv_rows()
        first = next(rows, None)
        if first is None:  # an empty file has no records, as one of JSON lines
            return
        header = [name.strip() for name in first[1]]
        if not any(header):
            raise InputError(
                f"{self.label} has no header. The first line of a {self.format.upper()} file must "
                "contain the names of the columns."
            )
        remedy = _separator_remedy(header[0], self.format) if len(header) == 1 else None
        header = _with_required_names(header, required)
        _check_columns(f"{self.label}: the header", header, required, remedy)
        for number, row in rows:
            # In a table with one column, a blank line is an empty value.
            if not row and len(header) > 1:
                continue
            row = row or [""]
            location = f"{self.label}: line {number}"
            if len(row) != len(header):
                raise InputError(
                    f"{location}: the row has {len(row)} columns, but the header has "
                    f"{len(header)}: {listing(header, MAX_LISTED)}."
                )
            yield InputRecord(location, number, dict(zip(header, row, strict=True)))

    def _tsv_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a TSV file, in which quotes are ordinary characters."""
        for number, line in self._lines():
            yield number, line.split("\t") if line else []

    def _csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a CSV file, each with the number of its last line.

        A quoted field can contain line ends.
        """
        lines = (line + "\n" for _, line in self._lines())
        reader = csv.reader(lines, strict=True)
        first_line = 1
        # The limit is global, so it is restored after reading. It also bounds the memory used if a
        # quote is not closed.
        limit = csv.field_size_limit(line_blocks.MAX_LINE_BYTES)
        try:
            for row in reader:
                yield reader.line_num, row
                first_line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{self.label}: the row that starts in line {first_line} is not valid CSV: "
                f"{error}. A field with quotes, commas or line ends must be quoted, and quotes in "
                "it must be doubled."
            ) from None
        finally:
            csv.field_size_limit(limit)

    def _parquet_records(self, required: dict[str, str], read_all: bool) -> Iterator[InputRecord]:
        if self.name == STDIN or plain_name(self.name) != self.name:
            raise InputError(
                f"{self.label} is a Parquet file, which can only be read from an uncompressed "
                "file on disk. Write it to such a file first."
            )
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra(f"reading {self.name}", "parquet") from None
        try:
            with pyarrow.parquet.ParquetFile(self.name, pre_buffer=False) as file:
                names = file.schema_arrow.names
                renamed = _with_required_names(names, required)
                _check_columns(self.label, renamed, required)
                row_bytes = os.path.getsize(self.name) / max(1, file.metadata.num_rows)
                n_rows = 0
                chosen = names if read_all else [matching_name(name, names) for name in required]
                for batch in file.iter_batches(PARQUET_ROWS, columns=chosen):
                    if renamed != names:
                        new_names = dict(zip(names, renamed, strict=True))
                        batch = batch.rename_columns([new_names[n] for n in batch.schema.names])
                    for values in batch.to_pylist():
                        n_rows += 1
                        yield InputRecord(f"{self.label}: row {n_rows}", n_rows, values)
                    self.n_read = round(n_rows * row_bytes)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"Cannot read {self.label}: {shortened(error)}") from None


def parse_json_record(
    line: str, location: str, required: Mapping[str, str], *, is_first: bool = True
) -> dict[str, object]:
    """Parse a line of a JSON lines file; the first record must have the required fields."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = "If the file is plain text, use --input-format text."
        if line.strip() in ("[", "{"):
            command = "jq -c '.[]'" if line.strip() == "[" else "jq -c ."
            remedy = f"The JSON document has several lines; write one record per line ({command})."
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} (character {error.colno} of the line)"
        raise InputError(f"{location} is not a JSON record: {reason}. {remedy}") from None
    if not isinstance(record, dict):
        remedy = " Write one record per line (jq -c '.[]')." if isinstance(record, list) else ""
        raise InputError(
            f"{location} is not a JSON record: expected an object with named fields, got "
            f"{type(record).__name__}.{remedy}"
        )
    for field, option in required.items():
        if field not in record and (match := matching_name(field, record)) in record:
            record[field] = record.pop(match)
        if field not in record and is_first:
            raise InputError(
                f"{location} has no field {field!r} (found: {listing(list(record), MAX_LISTED)}). "
                f"Set {option} to another field, write null if the record has no value, or use "
                "--input-format text to read the file as plain text."
            )
    return record


def _separator_remedy(header: str, table_format: InputFormat) -> str | None:
    """Return a remedy if the only name in a header looks like names with another separator."""
    if "\t" in header:
        return "The header is separated by tabs: use --input-format tsv."
    if "," in header and table_format == "tsv":
        return "The header is separated by commas: use --input-format csv."
    if ";" in header:
        return "The header is separated by semicolons: convert the file to commas or tabs first."
    return None


def _with_required_names(names: Sequence[str], required: Collection[str]) -> list[str]:
    """Return the names of columns, spelled as the required ones if they only differ in NFC."""
    matches = {matching_name(column, names): column for column in required}
    return [matches.get(name, name) for name in names]


def _check_columns(
    location: str, names: Sequence[str], required: Mapping[str, str], remedy: str | None = None
) -> None:
    """Raise an error if a required column is missing or ambiguous.

    Each required column has the option that selects it. The remedy ends the message. Default:
    select another column.
    """
    for column, option in required.items():
        n = names.count(column)
        if n != 1:
            raise InputError(
                f"{location} has {n or 'no'} column{'s' * (n > 1)} {column!r} (found: "
                f"{listing(list(names), MAX_LISTED)}). "
                f"{remedy or f'Set {option} to another column.'}"
            )
