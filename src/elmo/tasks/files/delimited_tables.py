"""Reader for tables with a header row: CSV with quoted fields, and TSV without quoting.

The delimiter follows from the file name and the header.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, FormatError, did_you_mean
from elmo.tasks.core.example import Example
from elmo.tasks.files.raw_text import EmptyTextPolicy, RowFilter, report_skipped, to_words
from elmo.tasks.files.text_lines import read_text, split_lines
from elmo.text.column_names import matching_name
from elmo.text.line_splitter import SplitFunction

# The line on which a row ends, counted from 1, and the row.
NumberedRow = tuple[int, list[str]]


def read_table(
    path: Path,
    *,
    text: str | Sequence[str] = "text",
    label: str | None = "label",
    id: str | None = None,
    split: SplitFunction = str.split,
    empty: EmptyTextPolicy = "error",
    delimiter: str | None = None,
    quotes: bool | None = None,
    row_filter: RowFilter | None = None,
    encoding: str | None = None,
) -> list[Example[str]]:
    """Read texts and labels from named columns.

    Args:
        path: Path to the file.
        text: Name of the text column, or several names if an example has several texts.
        label: Name of the label column; None to read no labels.
        id: Name of the column with the example ids; None if there is none.
        split: Function that splits a text into words; should be the model's tokenizer.
        empty: How to handle a text without words: raise an error (`error`), read it as the word
            `.` so that scores count it (`keep`), or skip the example (`skip`).
        delimiter: Column separator. Default: a comma, semicolon or tab, as in the header.
        quotes: Whether fields can be quoted. Default: unless the delimiter is a tab.
        row_filter: Predicate that selects the rows to read; the texts of other rows are not
            checked. Default: read all rows, and raise an error if there are none.
        encoding: File encoding. Default: UTF-8, or UTF-16 if there is a byte order mark.
    """
    header, rows = _read_columns(path, read_text(path, encoding), delimiter, quotes)
    names = [text] if isinstance(text, str) else list(text)
    text_columns = [_find_column(path, header, name, "--text-column") for name in names]
    label_column = None if label is None else _find_column(path, header, label, "--label-column")
    id_column = None if id is None else _find_column(path, header, id, "id")
    examples: list[Example[str]] = []
    n_skipped = 0
    for location, row in rows:
        if row_filter is not None and not row_filter(_to_dict(header, row), location):
            continue
        target = None if label_column is None else row[label_column].strip()
        if target == "":
            raise FormatError(f"{location}: the column {label!r} is empty. Correct the row.")
        texts = to_words([row[column] for column in text_columns], split, empty, location)
        if texts is None:
            n_skipped += 1
            continue
        name = "" if id_column is None else row[id_column]
        examples.append(Example(texts, target, name, location=location))
    report_skipped(path, n_skipped)
    if not examples and row_filter is None:
        raise FormatError(f"{path}: contains no rows below the header.")
    return examples


def table_records(
    path: Path, text: str, columns: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the location of each row and its cells in the given columns.

    The path selects the delimiter. Each column has the option that selects it, for error messages.
    """
    header, rows = _read_columns(path, text)
    numbers = [_find_column(path, header, name, option) for name, option in columns]
    for location, row in rows:
        yield location, [row[number] for number in numbers]


def _read_columns(
    path: Path, text: str, delimiter: str | None = None, quotes: bool | None = None
) -> tuple[list[str], Iterator[tuple[str, list[str]]]]:
    """Return the header of a table, and an iterator over the locations and cells of its rows."""
    delimiter = _delimiter(path, text) if delimiter is None else delimiter
    if len(delimiter) != 1:
        raise ConfigError(f"delimiter must be a single character (got {delimiter!r}).")
    quotes = delimiter != "\t" if quotes is None else quotes
    rows = iter(_read_rows(path, text, delimiter, quotes))
    _, header = next(rows, (1, [""]))
    header = [name.strip() for name in header]
    return header, _checked_rows(path, header, rows, quotes)


def _checked_rows(
    path: Path, header: list[str], rows: Iterator[NumberedRow], quotes: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yield the location and the cells of each row; raise an error if a column is missing."""
    for number, row in rows:
        location = f"{path}, line {number}"
        if not row:
            # In a table with one column, a blank line is a text without words.
            if len(header) > 1:
                continue
            row = [""]
        if len(row) != len(header):
            hint = ""
            if not quotes and any(cell.startswith('"') for cell in row):
                hint = (
                    " Quotes are not special in a table with tabs: save it as CSV if a field "
                    "contains a line break or a tab."
                )
            raise FormatError(
                f"{location}: the row has {len(row)} columns, but the header has {len(header)}: "
                f"{', '.join(header)}.{hint}"
            )
        yield location, row


def column_names(path: Path, text: str) -> list[str]:
    """Return the column names of a table; the text can be just its first line."""
    delimiter = _delimiter(path, text)
    rows = _read_rows(path, text.partition("\n")[0], delimiter, delimiter != "\t")
    return [name.strip() for _, row in rows for name in row]


def _delimiter(path: Path, text: str) -> str:
    """Return the delimiter in the header of a table.

    A comma has precedence in .csv files and a tab in other files, which is also the default.
    """
    order = ",;\t" if plain_name(path.name).lower().endswith(".csv") else "\t,;"
    header = text.partition("\n")[0]
    return next((delimiter for delimiter in order if delimiter in header), order[0])


def _read_rows(path: Path, text: str, delimiter: str, quotes: bool) -> list[NumberedRow]:
    """Return the rows of a table; a blank line yields a row without columns."""
    if not quotes:
        lines = enumerate(split_lines(text), start=1)
        return [(number, line.split(delimiter) if line else []) for number, line in lines]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # A field can be as long as the file. The limit is global, so it is restored after reading.
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, len(text)))
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise FormatError(
            f"{path}, line {reader.line_num}: not a valid CSV row: {error}. A quote in a quoted "
            "field must be doubled; in a table with tabs (.tsv) quotes are not special."
        ) from None
    finally:
        csv.field_size_limit(limit)


def _to_dict(header: list[str], row: list[str]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in zip(header, row, strict=True)}


def _find_column(path: Path, header: list[str], name: str, option: str) -> int:
    """Return the index of a column; `option` is the flag that selects it, for error messages."""
    name = matching_name(name, header)
    n = header.count(name)
    if n == 1:
        return header.index(name)
    names = ", ".join(map(repr, header))
    raise FormatError(
        f"{path}, line 1: the header has {n or 'no'} column{'s' * (n > 1)} {name!r}."
        f"{did_you_mean(name, header)} The columns are: {names}. Choose one with {option}."
    )
