"""Recognition of the format of an input file: plain text, JSON lines, CSV, TSV or Parquet."""

import json
import logging
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


def format_of_name(name: str) -> InputFormat | None:
    """Return the format that a file name states by its extension, or None.

    Args:
        name: File name; the extension of a compression format is ignored.
    """
    stem = plain_name(name).lower()
    for extension, input_format in FORMATS_BY_EXTENSION.items():
        if stem.endswith(extension):
            return input_format
    return None


def format_of_content(data: bytes, label: str) -> InputFormat:
    """Return the format of a file that its beginning shows: Parquet, JSON lines or plain text.

    A file consists of JSON lines if its first lines are all JSON objects with at least one field.
    CSV and TSV cannot be distinguished from text that contains commas or tabs.

    Args:
        data: Complete lines from the beginning of the file, without a byte order mark.
        label: File name for warnings.
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


def _is_json_record(line: bytes) -> bool:
    """Whether a line is a JSON object with at least one field."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and bool(record)
