"""Tables with a header: TSV, whose quotes are plain characters, and CSV, whose quotes quote."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.raw_text import Empty, SplitFunction, Wanted, to_words
from elmo.tasks.readers.text_lines import lines_of, read_text

# A row and the line it ends in, from 1.
Row = tuple[int, list[str]]


def read_table(
    path: Path,
    *,
    text: str | Sequence[str] = "text",
    label: str | None = "label",
    id: str | None = None,
    split: SplitFunction = str.split,
    empty: Empty = "error",
    delimiter: str | None = None,
    quotes: bool | None = None,
    wanted: Wanted | None = None,
    encoding: str | None = None,
) -> list[Example]:
    """Read texts and labels by the names of their columns.

    Args:
        path: the file.
        text: name of the texts' column, or several for examples of several texts.
        label: name of the labels' column; None where they are not wanted.
        id: name of the column of names, where there is one.
        split: makes words of a text: the tokeniser of the model.
        empty: a text without words is an error (`error`), the single word `.` (`keep`), so that
            scores count it, or left out (`skip`).
        delimiter: between columns; where None, a comma in files named .csv and a tab in others.
        quotes: whether quotes hold a field together; where None, in files with commas alone.
        wanted: tells which rows to read, before their texts are looked at; all, and one at least,
            where None.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    delimiter = _delimiter(path) if delimiter is None else delimiter
    if len(delimiter) != 1:
        raise ConfigError(f"the delimiter is {delimiter!r}; expected one character")
    quotes = delimiter == "," if quotes is None else quotes
    rows = iter(_rows(path, read_text(path, encoding), delimiter, quotes))
    _, header = next(rows, (1, [""]))
    header = [name.strip() for name in header]
    names = [text] if isinstance(text, str) else list(text)
    text_places = [_place(path, header, name, "--text") for name in names]
    label_place = None if label is None else _place(path, header, label, "--label")
    id_place = None if id is None else _place(path, header, id, "id")
    examples: list[Example] = []
    for number, row in rows:
        where = f"{path}, line {number}"
        if not row:
            # With one column a blank line is a text, though one without words.
            if len(header) > 1:
                continue
            row = [""]
        if len(row) != len(header):
            raise FormatError(
                f"{where} has {len(row)} columns, the header has {len(header)}: {', '.join(header)}"
            )
        if wanted is not None and not wanted(_named(header, row), where):
            continue
        target = None if label_place is None else row[label_place].strip()
        if target == "":
            raise FormatError(f"{where} has no {label}")
        texts = to_words([row[place] for place in text_places], split, empty, where)
        if texts is not None:
            name = "" if id_place is None else row[id_place]
            examples.append(Example(texts, target, name, location=where))
    if not examples and wanted is None:
        raise FormatError(f"{path} holds no row below its header")
    return examples


def header_of(path: Path, text: str) -> list[str]:
    """Give the names of the columns of a table, of which the first line is enough."""
    delimiter = _delimiter(path)
    rows = _rows(path, text.partition("\n")[0], delimiter, delimiter == ",")
    return [name.strip() for _, row in rows for name in row]


def _delimiter(path: Path) -> str:
    """Tell from the name of a table what stands between its columns."""
    return "," if plain_name(path.name).lower().endswith(".csv") else "\t"


def _rows(path: Path, text: str, delimiter: str, quotes: bool) -> list[Row]:
    """Give rows; a blank line is one without columns."""
    if not quotes:
        lines = enumerate(lines_of(text), start=1)
        return [(number, line.split(delimiter) if line else []) for number, line in lines]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # A field may be as long as the file. The limit is that of the process: raised while this is
    # read, no longer.
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, len(text)))
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise FormatError(
            f"{path}, line {reader.line_num} is no row of a table: {error}; a quote is written "
            "twice, in a field between quotes; in a table with tabs (.tsv) it is written as it is"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _named(header: list[str], row: list[str]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in zip(header, row, strict=True)}


def _place(path: Path, header: list[str], name: str, option: str) -> int:
    """Find a column."""
    n = header.count(name)
    if n == 1:
        return header.index(name)
    found = ", ".join(map(repr, header))
    raise FormatError(
        f"{path}, line 1 names {n or 'no'} column{'s' * (n > 1)} {name!r}; it has {found}: name "
        f"the right one with {option}"
    )
