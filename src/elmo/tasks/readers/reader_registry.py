"""Which function reads which kind of file, and how a kind is found out."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.columns import CONLLU, DOCUMENT, read_conll, read_conllu, read_klp
from elmo.tasks.readers.coreference_files import read_coreference
from elmo.tasks.readers.delimited_tables import read_table
from elmo.tasks.readers.gap import read_gap
from elmo.tasks.readers.json_records import read_jsonl
from elmo.tasks.readers.occurrence_files import read_occurrences
from elmo.tasks.readers.parallel_files import read_parallel, tags_beside
from elmo.tasks.readers.predicate_frames import read_conll2005, read_conll2012, read_propbank
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.sense_tagged_files import read_senses
from elmo.tasks.readers.sentence_pair_files import read_pairs
from elmo.tasks.readers.sentiment_trees import read_sst2, read_sst5
from elmo.tasks.readers.squad import read_squad
from elmo.tasks.readers.text_lines import is_blank, read_lines

AUTO = "auto"
READERS: dict[str, Callable[..., list[Example]]] = {
    "conll": read_conll,
    "conll2005": read_conll2005,
    "conll2012": read_conll2012,
    "conllu": read_conllu,
    "coreference": read_coreference,
    "gap": read_gap,
    "jsonl": read_jsonl,
    "klp": read_klp,
    "occurrences": read_occurrences,
    "parallel": read_parallel,
    "propbank": read_propbank,
    "sentence_pairs": read_pairs,
    "squad": read_squad,
    "sst2": read_sst2,
    "sst5": read_sst5,
    "table": read_table,
    "word_senses": read_senses,
}

_ENDINGS = {
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
    path: str | Path, kind: str = AUTO, *, split: SplitFunction | None = None, **options: Any
) -> list[Example]:
    """Read the examples of a file.

    Args:
        path: the file.
        kind: a name in `READERS`, or `auto`: by the ending and the content of the file. Trees are
            then read with five labels.
        split: makes words of raw text, where the kind has raw text; by white space where None.
        options: of the reader of that kind, such as `encoding`, which all have.
    """
    path = Path(path)
    if kind == AUTO:
        kind = detect_reader(path, options.get("encoding"))
    if kind not in READERS:
        raise ConfigError(
            f"there is no kind of file {kind!r}; expected {', '.join(READERS)} or {AUTO}"
        )
    reader = READERS[kind]
    known = inspect.signature(reader).parameters.keys() - {"path"}
    if unknown := options.keys() - known:
        raise ConfigError(
            f"a file of the kind {kind} has no option {', '.join(sorted(unknown))}; it has "
            f"{', '.join(sorted(known))}"
        )
    if split is not None and "split" in known:
        options["split"] = split
    return reader(path, **options)


def detect_reader(path: Path, encoding: str | None = None) -> str:
    """Find out the kind of a file.

    Args:
        path: the file.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    ending = Path(plain_name(path.name)).suffix.lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    beside = tags_beside(path)
    if beside is not None and beside.exists():
        return "parallel"
    lines = read_lines(path, encoding)
    while lines and is_blank(lines[-1]):
        lines.pop()
    kind = _by_content(lines)
    if kind is None:
        raise FormatError(
            f"cannot tell what kind of file {path} is; say it with --reader: one of "
            f"{', '.join(READERS)}"
        )
    return kind


def _by_content(lines: list[str]) -> str | None:
    filled = [line for line in lines if not is_blank(line)]
    if not filled:
        return None
    first, second = (*filled, "")[:2]
    data = next((line for line in filled if not line.startswith("#")), "")
    if first.startswith("#begin document"):
        # Frames or clusters: the file does not tell which are wanted.
        return None
    if _TREE.match(first):
        return "sst5"
    if _is_record(first):
        return "jsonl"
    if first.startswith(";") and second.startswith("$") and "\t" not in first:
        return "klp"
    if _has_klp_tags(filled):
        return "klp"
    if _CONLLU_LINE.fullmatch(data):
        return "conllu"
    if first.startswith(DOCUMENT) or (len(filled) < len(lines) and len(first.split()) > 1):
        return "conll"
    return "table" if "\t" in first else None


def _has_klp_tags(lines: list[str]) -> bool:
    """Tell whether lines end in the tags of KLP-2016, whose sentences need no heads."""
    last = [line.split()[-1] for line in lines if line.count("\t") > 1]
    return any(tag.startswith("B_") for tag in last) and "I" in last


def _is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
