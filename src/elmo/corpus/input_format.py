"""Recognition of the format of an input file: plain text, JSON lines, CSV, TSV or Parquet."""

import csv
import json
import logging
import re
from itertools import islice

from elmo.config import InputFormat
from elmo.corpus.compressed_files import plain_name

logger = logging.getLogger(__name__)

# The magic number of a Parquet file and the first byte of the page header or footer that follows.
# The latter is a control character, so ordinary text never starts with these bytes.
PARQUET_START = b"PAR1\x15"
FORMATS_BY_EXTENSION: dict[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
# Lines at the beginning of a file that must be JSON records for the file to be JSON lines.
SAMPLE_LINES = 16
# A column name: up to three words, with a letter or underscore first.
_COLUMN_NAME = re.compile(r"[^\W\d][\w.-]{0,39}( [\w.-]{1,39}){0,2}")


def format_of_name(name: str) -> InputFormat | None:
    """Return the format stated by an extension, before that of a compression format, or None."""
    stem = plain_name(name).lower()
    for extension, input_format in FORMATS_BY_EXTENSION.items():
        if stem.endswith(extension):
            return input_format
    return None


def format_of_content(data: bytes, label: str) -> InputFormat:
    """Return the format of a file that its beginning shows: Parquet, JSON lines or plain text.

    The data are complete lines without a byte order mark. A file consists of JSON lines if its
    first lines are all JSON objects with at least one field. CSV and TSV cannot be distinguished
    from text that contains commas or tabs.
    """
    if data.startswith(PARQUET_START):
        return "parquet"
    if data.lstrip()[:1] != b"{":
        return "text"
    numbered = ((n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip())
    sample = list(islice(numbered, SAMPLE_LINES))
    other = next((number for number, line in sample if not _is_json_record(line)), None)
    if other is None:
        return "jsonl"
    if other != sample[0][0]:
        logger.warning(
            "%s starts with a JSON record, but line %d is not one, so the file is read as plain "
            "text. If it consists of JSON lines, use --input-format jsonl.",
            label,
            other,
        )
    return "text"


def table_format(data: bytes) -> InputFormat | None:
    """Return "csv" or "tsv" if plain text looks like such a table with a header, else None.

    The data are complete lines without a byte order mark. The first line must consist of distinct
    column names without spaces around them. If none of them is "text", the next lines must have the
    same number of columns.
    """
    lines = [
        line.decode("utf-8", "replace").removesuffix("\r")
        for line in data.split(b"\n", SAMPLE_LINES)[:SAMPLE_LINES]
    ]
    formats: dict[str, InputFormat] = {",": "csv", "\t": "tsv"}
    for delimiter, input_format in formats.items():
        try:
            header, *rows = csv.reader(lines, delimiter=delimiter)
        except (ValueError, csv.Error):  # no lines, or a field that is too long
            continue
        is_header = len(set(header)) == len(header) > 1 and all(
            _COLUMN_NAME.fullmatch(name) for name in header
        )
        lengths = {len(row) for row in rows if row}
        if is_header and (lengths == {len(header)} or "text" in header):
            return input_format
    return None


def _is_json_record(line: bytes) -> bool:
    """Whether a line is a JSON object with at least one field."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and bool(record)
