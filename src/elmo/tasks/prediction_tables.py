"""Input files of `elmo task predict` other than plain text: tables, JSON lines and CoNLL files."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from elmo.config import TaskConfig, TaskPredictConfig
from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.load_examples import WORD_FIELDS, column_list
from elmo.tasks.readers.columns import read_conll, read_conllu
from elmo.tasks.readers.delimited_tables import column_names, read_table
from elmo.tasks.readers.json_records import field_names, read_jsonl
from elmo.tasks.readers.sentence_pair_files import TEXTS
from elmo.tasks.readers.text_lines import read_text

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_TABLE_SUFFIXES = (".csv", ".tsv")
CONLL_SUFFIXES = (".conll", ".iob", ".bio")
_CONLLU_SUFFIX = ".conllu"


def table_lines(config: TaskPredictConfig, task: TaskConfig) -> Iterator[str] | None:
    """Return the texts of a table as lines, with tabs between the texts of a row.

    Line breaks and tabs in a text are replaced by spaces, which keeps the positions of characters.

    Args:
        config: Options of the command.
        task: Options of the model, which contain the columns of its training set.

    Returns:
        The lines, or None if the input is plain text. A file with tabs is a table if its first line
        names the columns of the texts.
    """
    path = Path(config.input)
    suffix = _suffix(config.input)
    if suffix not in (*_JSON_SUFFIXES, *_TABLE_SUFFIXES):
        if config.text_column is not None:
            raise ConfigError(
                f"--text-column has no effect: {config.input} is read as plain text. Tables and "
                f"JSON lines end in {', '.join((*_TABLE_SUFFIXES, *_JSON_SUFFIXES))}."
            )
        return None
    encoding = task.examples.encoding
    content = read_text(path, encoding)
    is_json = suffix in _JSON_SUFFIXES
    names = field_names(path, content) if is_json else column_names(path, content)
    given = config.text_column or task.examples.text_column
    columns = _default_columns(task.task, names) if given is None else column_list(given)
    if suffix == ".tsv" and config.text_column is None and not set(columns) <= set(names):
        return None
    # Texts are not split here: each is a single word.
    reader = read_jsonl if is_json else read_table
    examples = reader(path, text=columns, label=None, split=lambda text: [text], encoding=encoding)
    return _lines([(str(example.location), example.texts) for example in examples])


def conll_examples(config: TaskPredictConfig, task: TaskConfig) -> list[Example] | None:
    """Return the sentences of a CoNLL or CoNLL-U file without tags.

    Args:
        config: Options of the command.
        task: Options of the model.

    Returns:
        The sentences, or None if the file has another extension.
    """
    suffix = _suffix(config.input)
    if suffix not in (*CONLL_SUFFIXES, _CONLLU_SUFFIX):
        return None
    if task.task != "tagging":
        raise ConfigError(
            f"{config.input}: CoNLL files are only supported for tagging, and {config.model} is a "
            f"model for {task.task}. Use a file with one text per line."
        )
    for flag, is_set in (
        ("--pretokenized", config.pretokenized),
        ("--text-column", config.text_column is not None),
    ):
        if is_set:
            raise ConfigError(
                f"{flag} has no effect: {config.input} is a CoNLL file, with one word per line."
            )
    read = read_conllu if suffix == _CONLLU_SUFFIX else read_conll
    examples = read(Path(config.input), tags=None, encoding=task.examples.encoding)
    return [replace(example, id=str(number)) for number, example in enumerate(examples, start=1)]


def _suffix(path: str) -> str:
    return Path(plain_name(Path(path).name)).suffix.lower()


def _default_columns(task: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns of the texts, if neither the command nor the training set names them."""
    if task == "sentence_pairs":
        return next((pair for pair in TEXTS if set(pair) <= set(names)), TEXTS[0])
    if task == "question_answering":
        return ("question", "passage" if "passage" in names else "context")
    candidates = WORD_FIELDS if task == "tagging" else ("text",)
    return (next((name for name in candidates if name in names), "text"),)


def _lines(rows: list[tuple[str, tuple[tuple[str, ...], ...]]]) -> Iterator[str]:
    for location, texts in rows:
        for words in texts:
            if len(words) > 1:
                raise FormatError(f"{location}: the text is a list of words; expected a string.")
            if not words[0].strip():
                raise FormatError(f"{location}: the row has an empty text. Remove the row.")
        yield "\t".join("".join(_flat(words[0])) for words in texts)


def _flat(text: str) -> Iterator[str]:
    """Yield the characters of a text, with a space for each white-space character."""
    return (" " if character.isspace() else character for character in text)
