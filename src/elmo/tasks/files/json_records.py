"""Reader for JSON records: one record per line, or one list of records."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.errors import FormatError, did_you_mean, shortened
from elmo.tasks.core.example import Example
from elmo.tasks.files.json_location import JSONLocation, Location
from elmo.tasks.files.raw_text import EmptyTextPolicy, RowFilter, report_skipped, to_words
from elmo.tasks.files.text_lines import read_text, split_lines
from elmo.text.column_names import matching_name
from elmo.text.line_splitter import SplitFunction


def read_jsonl(
    path: Path,
    *,
    text: str | Sequence[str] = "text",
    label: str | None = "label",
    id: str | None = None,
    split: SplitFunction = str.split,
    empty: EmptyTextPolicy = "error",
    row_filter: RowFilter | None = None,
    encoding: str | None = None,
) -> list[Example[str | tuple[str, ...]]]:
    """Read texts and labels from named fields; the arguments are those of `read_table`.

    The file has one record per line, or one JSON list of records. A text is a string or a list of
    words. A label is a string, a number, or a list with one tag per word. Records without the id
    field are accepted.
    """
    names = [text] if isinstance(text, str) else list(text)
    examples: list[Example[str | tuple[str, ...]]] = []
    n_skipped = 0
    for location, record in records(path, read_text(path, encoding)):
        if row_filter is not None and not row_filter(record, location):
            continue
        values = [
            text_value(field_value(record, name, "--text-column", location), name, location)
            for name in names
        ]
        texts = to_words(values, split, empty, location)
        if texts is None:
            n_skipped += 1
            continue
        target = None
        if label is not None:
            value = field_value(record, label, "--label-column", location)
            target = _target(value, label, location)
        if isinstance(target, tuple) and len(target) != len(texts[0]):
            raise FormatError(
                f"{location}: the record has {len(texts[0])} words but {len(target)} tags."
            )
        name = "" if id is None or record.get(id) is None else str(record[id])
        examples.append(Example(texts, target, name, location=location))
    report_skipped(path, n_skipped)
    if not examples and row_filter is None:
        raise FormatError(f"{path}: contains no records.")
    return examples


def records(path: Path, text: str) -> Iterator[tuple[Location, dict[str, object]]]:
    """Yield the records of a file with their locations."""
    if text.lstrip().startswith("["):
        values = parse_json(text, str(path), "list of records", has_lines=True)
        assert isinstance(values, list)
        for number, value in enumerate(values):
            location = JSONLocation(path, text, (number,), f"record {number + 1}")
            yield location, _check_record(location, value)
        return
    for number, line in enumerate(split_lines(text), start=1):
        if line.strip():
            line_location = f"{path}, line {number}"
            value = parse_json(line, line_location, "record")
            yield line_location, _check_record(line_location, value)


def parse_json(text: str, location: str, description: str, has_lines: bool = False) -> object:
    """Parse a JSON text; errors name its `description` and, with `has_lines`, the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if has_lines else ""
        raise FormatError(
            f"{location}{line}: not a JSON {description}: {error.msg} at character {error.colno}."
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{location}: not a JSON {description}: {error}.") from None


def _check_record(location: Location, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FormatError(
            f"{location}: expected a JSON object with fields (got {type(value).__name__})."
        )
    return value


def field_names(path: Path, text: str) -> list[str]:
    """Return the field names of the first record; an empty list if there are no records."""
    _, record = next(records(path, text), ("", {}))
    return list(record)


def field_value(record: dict[str, object], name: str, option: str, location: Location) -> object:
    """Return the value of a field, not null; `option` is its flag, for error messages."""
    name = matching_name(name, record)
    if name not in record:
        names = ", ".join(map(repr, record)) or "none"
        raise FormatError(
            f"{location}: there is no field {name!r}.{did_you_mean(name, record)} The fields are: "
            f"{names}. Choose one with {option}."
        )
    if record[name] is None:
        raise FormatError(f"{location}: the field {name!r} is null. Correct the record.")
    return record[name]


def text_value(value: object, name: str, location: Location) -> str | list[str]:
    """Check and return the value of a text field: a string or a list of words."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        if not all(value):
            raise FormatError(f"{location}: the field {name!r} contains an empty word.")
        return [replace_lone_surrogates(word) for word in value]
    raise FormatError(
        f"{location}: the field {name!r} must be a string or a list of words "
        f"(got {type(value).__name__})."
    )


def _target(value: object, name: str, location: Location) -> str | tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(tag, str) and tag for tag in value):
        return tuple(map(replace_lone_surrogates, value))
    if isinstance(value, list) and all(type(tag) is int for tag in value):
        return tuple(map(str, value))
    if isinstance(value, (str, int, float)) and value != "":
        # Spelled as in JSON: true instead of True.
        return replace_lone_surrogates(value) if isinstance(value, str) else json.dumps(value)
    raise FormatError(
        f"{location}: the field {name!r} must be a label or a list of tags "
        f"(got {shortened(json.dumps(value), 100)})."
    )


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates with `?`: JSON can escape them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode()
