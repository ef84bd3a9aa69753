"""Pairs of texts with a label: SNLI, MultiNLI, SICK, KLUE-NLI, and tables and JSON like them.

The columns are known by the names that these sets give them, or named.
"""

from collections.abc import Sequence
from pathlib import Path

from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.lines import read_text
from elmo.tasks.readers.parts import part_of
from elmo.tasks.readers.records import read_jsonl, records
from elmo.tasks.readers.tables import header_of, read_table
from elmo.tasks.readers.words import Empty, Split

TEXTS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("sentence_A", "sentence_B"),
)
LABELS = ("gold_label", "entailment_judgment", "entailment_label", "label")
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
    split: Split = str.split,
    empty: Empty = "refuse",
    encoding: str | None = None,
) -> list[Example]:
    """Read pairs of texts; those without an agreed label are left out.

    Args:
        path: a table, JSON lines, or one JSON list; `SICK.txt/train` for a part of that.
        text: names of the two columns of texts; those of the sets above where None.
        label: name of the labels' column; that of the sets above where None.
        split: makes words of a text: the tokeniser of the model.
        empty: a text without words is an error (`refuse`), the single word `.` (`keep`), so that
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
    label = label or next((name for name in LABELS if name in columns), None)
    if texts is None or label is None:
        raise FormatError(
            f"{path}, line 1 names no pair of texts with a label; it has {', '.join(columns)[:200]}"
            f", expected {' or '.join(' and '.join(pair) for pair in TEXTS)}, and one of "
            f"{', '.join(LABELS)}; name yours with --text first,second and --label"
        )
    reader = read_jsonl if is_json else read_table
    options = {"text": texts, "label": label, "split": split, "empty": empty, "encoding": encoding}
    name = next((name for name in NAMES if name in columns), None)
    examples = reader(path, id=name, **options)  # type: ignore[arg-type]
    if part is not None:
        if is_json or SET not in columns:
            raise FormatError(f"{path} has no parts: there is no column {SET} in it")
        sets = read_table(path, id=SET, **options)  # type: ignore[arg-type]
        examples = [
            example for example, other in zip(examples, sets, strict=True) if other.id == SETS[part]
        ]
    decided = [example for example in examples if example.target != UNDECIDED]
    if not decided:
        raise FormatError(f"{path} holds no pair with a label" + (f" for {part}" if part else ""))
    return decided


def _fields(path: Path, text: str) -> list[str]:
    """Give the names of the fields of the first record."""
    _, record = next(records(path, text), ("", {}))
    return list(record)
