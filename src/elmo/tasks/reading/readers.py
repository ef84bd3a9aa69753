"""Registry of readers by name, and detection of the right reader for a file."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.text_lines import DOCUMENT, is_blank, read_lines
from elmo.tasks.registry.task_rows import AUTO, all_readers, imported, reader_row, task_row
from elmo.tasks.tagging.column_files import CONLLU
from elmo.tasks.tagging.parallel_files import find_tags_file
from elmo.text.line_splitter import SplitFunction

Reader = Callable[..., Sequence[Example[object]]]

_EXTENSIONS = {
    ".conllu": "conllu",
    ".csv": "table",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "table",
}
_TREE = re.compile(r"\(\d [^ ]")
_CONLLU_LINE = re.compile(rf"\d+(-\d+|\.\d+)?(\t[^\t]+){{{len(CONLLU) - 1}}}")


def read(
    path: str | Path,
    reader: str = AUTO,
    *,
    split: SplitFunction | None = None,
    encoding: str | None = None,
    **options: object,
) -> list[Example[object]]:
    """Read the examples in a file.

    Args:
        path: Path to the file.
        reader: Name of a reader, or `auto` to detect it from the file extension and
            content. With `auto`, sentiment trees are read with five labels.
        split: Function that splits raw text into words; not used for tokenized files. Default:
            split at white space.
        encoding: File encoding. Default: UTF-8, or UTF-16 if there is a byte order mark.
        **options: Options of the reader.

    Raises:
        ConfigError: The reader or an option is unknown.
        FormatError: The file is not in the format that the reader expects.
    """
    path = Path(path)
    if reader == AUTO:
        reader = detect_reader(path, encoding)
    read_file = cast(Reader, imported(reader_row(reader).place))
    known = inspect.signature(read_file).parameters.keys() - {"path"}
    if unknown := options.keys() - known:
        raise ConfigError(
            f"The reader {reader!r} has no option {', '.join(sorted(unknown))}. Its options are: "
            f"{', '.join(sorted(known))}."
        )
    if split is not None and "split" in known:
        options["split"] = split
    return list(read_file(path, encoding=encoding, **options))


def detect_reader(path: Path, encoding: str | None = None, task: str | None = None) -> str:
    """Return the reader for a file; the task distinguishes formats that look the same."""
    formats: Mapping[str, str] = {}
    if task is not None:
        row = task_row(task)
        formats = row.formats
        if row.reader is not None:
            return row.reader
    extension = Path(plain_name(path.name)).suffix.lower()
    name = _EXTENSIONS.get(extension)
    if name is not None and not (name == "table" and "table" in formats):
        return formats.get(name, name)
    tags_path = find_tags_file(path)
    if tags_path is not None and tags_path.exists():
        return "parallel"
    if path.is_dir() and "folder" in formats:
        return formats["folder"]
    lines = read_lines(path, encoding)
    while lines and is_blank(lines[-1]):
        lines.pop()
    name = _detect_by_content(lines)
    reader = formats.get(name, name)
    if reader not in all_readers():
        raise FormatError(
            f"Cannot detect the format of {path}. Choose a reader with --reader: "
            f"{', '.join(all_readers())}."
        )
    return reader


def _detect_by_content(lines: list[str]) -> str:
    """Return the name of a reader, or a format that tasks read differently.

    Such formats are `documents` (with frames and coreference), `commas` (perhaps a table),
    `unknown` and `empty`.
    """
    filled = [line for line in lines if not is_blank(line)]
    if not filled:
        return "empty"
    first, second = (*filled, "")[:2]
    data = next((line for line in filled if not line.startswith("#")), "")
    if first.startswith("#begin document"):
        return "documents"
    if _TREE.match(first):
        return "sst5"
    if _is_record(first) or first.strip() == "[" or first.startswith(("[{", "[ {")):
        return "jsonl"
    if first.startswith(";") and second.startswith("$") and "\t" not in first:
        return "klp"
    if _has_klp_tags(filled):
        return "klp"
    if _CONLLU_LINE.fullmatch(data):
        return "conllu"
    if first.startswith(DOCUMENT) or (len(filled) < len(lines) and len(first.split()) > 1):
        return "conll"
    if "\t" in first:
        return "table"
    return "commas" if "," in lines[0] else "unknown"


def _has_klp_tags(lines: list[str]) -> bool:
    """Whether the lines end in KLP-2016 tags; used for files without the optional header lines."""
    tags = [line.split()[-1] for line in lines if line.count("\t") > 1]
    return any(tag.startswith("B_") for tag in tags) and "I" in tags


def _is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
