"""The rows of an embedding: the texts of the input records, with the values carried to the output.

Records come from plain text, JSON lines, CSV, TSV or Parquet files, which are read in bounded
memory. A record is one row, or one row per sentence.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from elmo.config import EmbedConfig
from elmo.corpus.input_records import TEXT, InputFile, InputRecord
from elmo.embed.buffered_write import Line
from elmo.embed.parquet_writer import LINE
from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.text.line_splitter import SplitFunction
from elmo.text.sentences import split_sentences

# Name of the value that identifies a row; `LINE` is the number of its record.
ID = "id"
# Names in the output files that a carried column must not have.
RESERVED = ("sentence", "words", "vectors", ID, LINE)


def carried_columns(config: EmbedConfig) -> tuple[str, ...]:
    """Return the distinct columns to carry to the output, except for the id."""
    names = tuple(name.strip() for name in (config.columns or "").split(",") if name.strip())
    for name in names:
        if name in RESERVED or names.count(name) > 1:
            reason = "is repeated" if names.count(name) > 1 else "is a name in the output"
            raise ConfigError(
                f"--columns {config.columns}: {name!r} {reason}. Names in the output are: "
                f"{', '.join(RESERVED)}."
            )
    return names


def carried_names(config: EmbedConfig) -> tuple[str, ...]:
    """Return the names of all values that each row carries to the output."""
    ids = (ID,) if config.id_column is not None else ()
    lines = (LINE,) if config.sentences == "split" else ()
    return (*ids, *lines, *carried_columns(config))


def finds_paragraphs(config: EmbedConfig) -> bool:
    """Whether to report lines of several sentences.

    With --sentences line the user knows that each line is one sentence, and with --pooling that
    each text has one vector.
    """
    return config.sentences is None and config.pooling is None


class RowReader:
    """Reads the rows of input files."""

    def __init__(self, config: EmbedConfig, split: SplitFunction) -> None:
        self._config = config
        self._split = split
        self._columns = carried_columns(config)
        self._text_column = config.text_column or TEXT
        self._required = {self._text_column: "--text-column"}
        self._required |= dict.fromkeys(self._columns, "--columns")
        if config.id_column is not None:
            self._required[config.id_column] = "--id-column"
        self._n_records = 0
        self._has_warned = False

    def rows(
        self, file: InputFile, on_text: Callable[[str], None] = lambda text: None
    ) -> Iterator[Line]:
        """Yield the rows of a file, numbered over all files, and report the text of each record."""
        before = file.n_read
        for record in file.records(self._required):
            if file.format == "text" and self._config.text_column is not None:
                raise file.no_columns(f"--text-column {self._config.text_column}")
            if file.table_format and not self._has_warned:
                file.warn_about_table()
                self._has_warned = True
            self._n_records += 1
            text = record.text(self._text_column) or ""
            on_text(text)
            words = self._split(text)
            values = self._values(record)
            n_bytes, before = file.n_read - before, file.n_read
            if self._config.sentences != "split":
                yield Line(text, words, n_bytes, values)
                continue
            # An empty text is a row too, so that no record is lost.
            for number, sentence in enumerate(split_sentences(words) or [[]]):
                yield Line(" ".join(sentence), sentence, 0 if number else n_bytes, values)

    def _values(self, record: InputRecord) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        if self._config.id_column is not None:
            values[ID] = _as_text(record.values[self._config.id_column])
        if self._config.sentences == "split":
            values[LINE] = str(self._n_records)
        return values | {name: _as_text(record.values[name]) for name in self._columns}


def _as_text(value: Any) -> str | None:
    """Return a value as a string, and null as None.

    Dates and times are written in ISO 8601, decimals with all their digits, bytes as UTF-8, and
    values of other types as JSON.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, date | time | Decimal | bytes):
        return _scalar_text(value)
    return json.dumps(value, ensure_ascii=False, default=_scalar_text)


def _scalar_text(value: Any) -> str:
    """Return a value of a type that JSON does not have as a string."""
    if isinstance(value, date | time):  # a datetime is a date too
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def has_plain_lines(config: EmbedConfig, names: Sequence[str]) -> bool:
    """Whether all inputs are plain lines without carried values; warn about apparent tables."""
    if config.sentences == "split" or carried_names(config) or config.text_column is not None:
        return False
    table = None
    for name in names:
        file = InputFile(name, config.input_format)
        if file.format != "text":
            return False
        table = table or (file if file.table_format else None)
    if table is not None:
        table.warn_about_table()
    return True


def write_rows(
    path: Path,
    names: Sequence[str],
    config: EmbedConfig,
    split: SplitFunction,
    report: Callable[[float], None],
) -> None:
    """Write the rows of input files to a file with one JSON record per row.

    `split` is only used to find sentences. `report` receives the number of file bytes read since
    the last call.
    """
    is_split = config.sentences == "split"
    reader = RowReader(config, split if is_split else lambda text: [])
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:
        for name in names:
            for row in reader.rows(InputFile(name, config.input_format)):
                text = {"words": row.words} if is_split else {"text": row.text}
                file.write(json.dumps({**text, "values": row.values}, ensure_ascii=False) + "\n")
                report(row.n_bytes)


def parse_row(line: str, split: SplitFunction) -> Line:
    """Return a row from a line of a file written by `write_rows`."""
    row = json.loads(line)
    words = row["words"] if "words" in row else split(row["text"])
    return Line(row.get("text", " ".join(words)), words, len(line), row["values"])


def row_text(line: str) -> str:
    """Return the text of a row, or its words separated by spaces."""
    row = json.loads(line)
    return row["text"] if "text" in row else " ".join(row["words"])
