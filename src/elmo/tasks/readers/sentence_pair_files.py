"""Pairs of texts with a label: SNLI, MultiNLI, SICK, KLUE-NLI, and tables and JSON like them.

The columns are known by the names that these sets give them, or named.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.delimited_tables import header_of, read_table
from elmo.tasks.readers.json_location import Where
from elmo.tasks.readers.json_records import read_jsonl, records
from elmo.tasks.readers.part_paths import part_of
from elmo.tasks.readers.raw_text import Empty, SplitFunction
from elmo.tasks.readers.text_lines import read_text

TEXTS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("sentence_A", "sentence_B"),
)
# Of the sets above, whose labels are known; and of others, whose are not.
INFERENCE_LABELS = ("gold_label", "entailment_judgment", "entailment_label")
LABELS = (*INFERENCE_LABELS, "label")
INFERENCES = ("entailment", "contradiction", "neutral")
NAMES = ("pairID", "guid", "pair_ID")
# Pairs on whose label those who were asked did not agree; they are no examples.
UNDECIDED = "-"
# SICK.txt has all three parts, and says in this column which is which.
SET = "SemEval_set"
SETS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}


def read_pairs(
    path: Path,
    *,
    text: Sequence[str] | None = None,
    label: str | None = None,
    split: SplitFunction = str.split,
    empty: Empty = "error",
    encoding: str | None = None,
) -> list[Example]:
    """Read pairs of texts; those without an agreed label are left out.

    Of the sets above, known by the names of their columns, other labels than theirs are refused.

    Args:
        path: a table, JSON lines, or one JSON list; `SICK.txt/train` for a part of that.
        text: names of the two columns of texts; those of the sets above where None.
        label: name of the labels' column; that of the sets above where None.
        split: makes words of a text: the tokeniser of the model.
        empty: a text without words is an error (`error`), the single word `.` (`keep`), so that
            scores count it, or left out (`skip`).
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    if text is not None and (isinstance(text, str) or len(text) != 2):
        raise ConfigError(
            f"text is {text!r}; pairs have two columns of texts: --text premise,hypothesis"
        )
    path, part = part_of(path)
    content = read_text(path, encoding)
    is_json = content.lstrip()[:1] in ("[", "{")
    columns = _fields(path, content) if is_json else header_of(path, content)
    texts = text or next((pair for pair in TEXTS if set(pair) <= set(columns)), None)
    has_own_names = text is not None or label is not None
    label = label or next((name for name in LABELS if name in columns), None)
    if texts is None or label is None:
        raise FormatError(
            f"{path}, line 1 names no pair of texts with a label; it has {', '.join(columns)[:200]}"
            f", expected {' or '.join(' and '.join(pair) for pair in TEXTS)}, and one of "
            f"{', '.join(LABELS)}; name yours with --text first,second and --label"
        )
    if part is not None and (is_json or SET not in columns):
        raise FormatError(f"{path} has no parts: there is no column {SET} in it")
    is_inference = label in INFERENCE_LABELS and not has_own_names
    reader = read_jsonl if is_json else read_table
    examples = reader(
        path,
        text=texts,
        label=label,
        id=next((name for name in NAMES if name in columns), None),
        split=split,
        empty=empty,
        wanted=partial(_is_wanted, label, is_inference, part),
        encoding=encoding,
    )
    if not examples:
        raise FormatError(f"{path} holds no pair with a label" + (f" for {part}" if part else ""))
    return examples


def _is_wanted(
    label: str, is_inference: bool, part: str | None, record: Mapping[str, Any], where: Where
) -> bool:
    """Tell whether a pair has an agreed label and is of a part; refuse what is no label.

    Args:
        label: name of the labels' column.
        is_inference: whether the labels are those of inference.
        part: of SICK; None for all of it.
        record: columns of the pair.
        where: file and line, for messages.
    """
    value = record.get(label)
    if isinstance(value, list):
        raise FormatError(f"{where} has {len(value)} values for {label}; a pair has one label")
    # What is not there at all is told of by those who read the label.
    is_known = value in (None, "", UNDECIDED) or str(value).lower() in INFERENCES
    if is_inference and not is_known:
        raise FormatError(
            f"{where} has the {label} {str(value)[:100]!r}; expected {', '.join(INFERENCES)}, or "
            f"{UNDECIDED} for none; labels of another set are read with --label {label}"
        )
    return value != UNDECIDED and (part is None or record[SET] == SETS[part])


def _fields(path: Path, text: str) -> list[str]:
    """Give the names of the fields of the first record."""
    _, record = next(records(path, text), ("", {}))
    return list(record)
