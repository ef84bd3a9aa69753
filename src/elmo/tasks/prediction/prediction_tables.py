"""Input files of `elmo task predict` other than plain text: tables, JSON lines and CoNLL files."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from elmo.config import TaskPredictConfig
from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError
from elmo.progress import progress_message
from elmo.tasks.core.example import Example
from elmo.tasks.files.delimited_tables import column_names, table_records
from elmo.tasks.files.json_records import field_names, field_value, records, text_value
from elmo.tasks.files.text_lines import first_lines, read_text
from elmo.tasks.reading.load_examples import column_list, default_columns
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_rows import task_row
from elmo.tasks.tagging.column_files import has_tagged_columns, read_conll, read_conllu
from elmo.text.column_names import matching_name
from elmo.text.input_lines import STDIN

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_TABLE_SUFFIXES = (".csv", ".tsv")
CONLL_SUFFIXES = (".conll", ".iob", ".bio")
_CONLLU_SUFFIX = ".conllu"


class InputRow(NamedTuple):
    """A row of an input file, for which there is one prediction."""

    location: str
    """File and line, for error messages."""
    texts: tuple[str | Sequence[str], ...]
    """Texts, raw or as words."""
    id: object = None
    """Value in the id column; None if there is none."""


class InputTable(NamedTuple):
    """A table or JSON lines."""

    columns: tuple[str, ...]
    """Names of the text columns."""
    rows: list[InputRow]
    """Rows in the order of the file."""


def input_table(config: TaskPredictConfig, task: TaskConfig) -> InputTable | None:
    """Read a table or JSON lines; return None if the input is plain text.

    A file with tabs is a table if its first line names the columns of the texts in `task`.
    """
    path = Path(config.input)
    suffix = _suffix(config.input)
    if suffix not in (*_JSON_SUFFIXES, *_TABLE_SUFFIXES):
        for flag, column in _column_flags(config):
            if column is not None:
                raise ConfigError(
                    f"{flag} has no effect: {config.input} is read as plain text. Tables and "
                    f"JSON lines end in {', '.join((*_TABLE_SUFFIXES, *_JSON_SUFFIXES))}."
                )
        return None
    content = read_text(path, config.encoding)
    is_json = suffix in _JSON_SUFFIXES
    names = field_names(path, content) if is_json else column_names(path, content)
    given = config.text_column or task.examples.text_column
    columns = default_columns(task.task, names) if given is None else column_list(given)
    has_flags = any(column is not None for _, column in _column_flags(config))
    if (
        suffix == ".tsv"
        and not has_flags
        and any(matching_name(column, names) not in names for column in columns)
    ):
        return None
    read = _json_rows if is_json else _table_rows
    return InputTable(columns, list(read(path, content, columns, config.id_column)))


def _column_flags(config: TaskPredictConfig) -> list[tuple[str, str | None]]:
    return [("--text-column", config.text_column), ("--id-column", config.id_column)]


def _table_rows(
    path: Path, content: str, columns: tuple[str, ...], id_column: str | None
) -> Iterator[InputRow]:
    options = [(column, "--text-column") for column in columns]
    if id_column is not None:
        options.append((id_column, "--id-column"))
    n = len(columns)
    for location, cells in table_records(path, content, options):
        yield InputRow(location, tuple(cells[:n]), cells[n] if cells[n:] else None)


def _json_rows(
    path: Path, content: str, columns: tuple[str, ...], id_column: str | None
) -> Iterator[InputRow]:
    for location, record in records(path, content):
        texts = [
            # A missing text has no words.
            ""
            if record.get(matching_name(name, record), ...) is None
            else text_value(field_value(record, name, "--text-column", location), name, location)
            for name in columns
        ]
        row_id = None
        if id_column is not None:
            row_id = field_value(record, id_column, "--id-column", location)
        yield InputRow(str(location), tuple(texts), row_id)


def conll_examples(
    config: TaskPredictConfig, task: TaskConfig, labels: Sequence[str]
) -> list[tuple[InputRow, Example[object]]] | None:
    """Return the sentences of a CoNLL or CoNLL-U file without tags, as rows and examples.

    Returns None if neither the extension nor the content is that of such a file.
    """
    suffix, has_tags = _suffix(config.input), task_row(task.task).has_word_tags
    if suffix not in (*CONLL_SUFFIXES, _CONLLU_SUFFIX):
        is_other = config.input == STDIN or suffix in (*_JSON_SUFFIXES, *_TABLE_SUFFIXES)
        if not has_tags or is_other:
            return None
        if not has_tagged_columns(first_lines(config.input, config.encoding), labels):
            return None
    if not has_tags:
        raise ConfigError(
            f"{config.input}: CoNLL files are only supported for tagging, and {config.model} is a "
            f"model for {task.task}. Use a file with one text per line."
        )
    columns = [(flag, column is not None) for flag, column in _column_flags(config)]
    for flag, is_set in [("--pretokenized", config.pretokenized), *columns]:
        if is_set:
            raise ConfigError(
                f"{flag} has no effect: {config.input} is a CoNLL file, with one word per line."
            )
    if suffix not in (*CONLL_SUFFIXES, _CONLLU_SUFFIX):
        progress_message(f"{config.input} has one word per line and is read as a CoNLL file.")
    read = read_conllu if suffix == _CONLLU_SUFFIX else read_conll
    examples = read(Path(config.input), tags=None, encoding=config.encoding)
    return [
        (InputRow(str(example.location), example.texts), replace(example, id=str(number)))
        for number, example in enumerate(examples, start=1)
    ]


def _suffix(path: str) -> str:
    return Path(plain_name(Path(path).name)).suffix.lower()
