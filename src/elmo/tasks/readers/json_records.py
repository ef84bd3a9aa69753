"""JSON records: one a line, or a list of them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo.errors import FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.json_location import Inside, Where
from elmo.tasks.readers.raw_text import Empty, SplitFunction, Wanted, to_words
from elmo.tasks.readers.text_lines import lines_of, read_text


def read_jsonl(
    path: Path,
    *,
    text: str | Sequence[str] = "text",
    label: str | None = "label",
    id: str | None = None,
    split: SplitFunction = str.split,
    empty: Empty = "error",
    wanted: Wanted | None = None,
    encoding: str | None = None,
) -> list[Example]:
    """Read texts and labels by the names of their fields.

    A text is a string, or a list of strings which are its words. A label is a string, a number, or
    a list with a tag for each word.

    Args:
        path: the file: a record a line, or one JSON list of records.
        text: name of the texts' field, or several for examples of several texts.
        label: name of the labels' field; None where they are not wanted.
        id: name of the field of names, where there is one; a record without it has no name.
        split: makes words of a text: the tokeniser of the model.
        empty: a text without words is an error (`error`), the single word `.` (`keep`), so that
            scores count it, or left out (`skip`).
        wanted: tells which records to read, before their texts are looked at; all, and one at
            least, where None.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    names = [text] if isinstance(text, str) else list(text)
    examples: list[Example] = []
    for where, record in records(path, read_text(path, encoding)):
        if wanted is not None and not wanted(record, where):
            continue
        found = [_text(_field(record, name, "--text", where), name, where) for name in names]
        texts = to_words(found, split, empty, where)
        if texts is None:
            continue
        target = None
        if label is not None:
            target = _target(_field(record, label, "--label", where), label, where)
        if isinstance(target, tuple) and len(target) != len(texts[0]):
            raise FormatError(
                f"{where} has {len(texts[0])} words and {len(target)} tags; expected as many"
            )
        name = "" if id is None or record.get(id) is None else str(record[id])
        examples.append(Example(texts, target, name, location=where))
    if not examples and wanted is None:
        raise FormatError(f"{path} holds no record")
    return examples


def records(path: Path, text: str) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Give records with where they stand."""
    if text.lstrip().startswith("["):
        values = parsed(text, str(path), "list of records", first_line=1)
        for number, value in enumerate(values):
            yield _checked(Inside(path, text, (number,), f"record {number + 1}"), value)
        return
    for number, line in enumerate(lines_of(text), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield _checked(where, parsed(line, where, "record"))


def parsed(text: str, where: str, what: str, first_line: int | None = None) -> Any:
    """Parse JSON; an error tells where, and the line where the text has several."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if first_line else ""
        raise FormatError(
            f"{where}{line} is no JSON {what}: {error.msg} at character {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is no JSON {what}: {error}") from None


def _checked(where: Where, value: Any) -> tuple[Where, dict[str, Any]]:
    if not isinstance(value, dict):
        raise FormatError(f"{where} is a {type(value).__name__}; expected a record with fields")
    return where, value


def _field(record: dict[str, Any], name: str, option: str, where: Where) -> Any:
    if name not in record:
        found = ", ".join(map(repr, record)) or "none"
        raise FormatError(
            f"{where} has no field {name!r}; it has {found[:200]}: name the right one with {option}"
        )
    return record[name]


def _text(value: Any, name: str, where: Where) -> str | list[str]:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        if not all(value):
            raise FormatError(f"{where}: {name} holds an empty word")
        return [whole(word) for word in value]
    raise FormatError(
        f"{where}: {name} is {type(value).__name__}; expected a string or a list of words"
    )


def _target(value: Any, name: str, where: Where) -> str | tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(tag, str) and tag for tag in value):
        return tuple(map(whole, value))
    if isinstance(value, (str, int, float)) and value != "":
        # As JSON spells it: true and not True.
        return whole(value) if isinstance(value, str) else json.dumps(value)
    raise FormatError(
        f"{where}: {name} is {json.dumps(value)[:100]}; expected a label or a list of tags"
    )


def whole(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON can spell but no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode()
