"""Reader for labeled text pairs: SNLI, MultiNLI, SICK, KLUE-NLI, and similar tables and JSON files.

Columns are recognized by their names in these data sets, or specified explicitly.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from elmo.errors import ConfigError, FormatError, shortened
from elmo.tasks.core.example import Example
from elmo.tasks.files.delimited_tables import column_names, read_table
from elmo.tasks.files.json_location import Location
from elmo.tasks.files.json_records import field_names, read_jsonl
from elmo.tasks.files.part_paths import split_part
from elmo.tasks.files.raw_text import EmptyTextPolicy
from elmo.tasks.files.text_lines import read_text
from elmo.tasks.sentence_pairs.sentence_pairs_options import PAIR_COLUMNS
from elmo.text.line_splitter import SplitFunction

# Label columns of the data sets above, whose labels are known; `label` can have any labels.
INFERENCE_LABELS = ("gold_label", "entailment_judgment", "entailment_label")
LABELS = (*INFERENCE_LABELS, "label")
INFERENCES = ("entailment", "contradiction", "neutral")
NAMES = ("pairID", "guid", "pair_ID")
# Label of pairs without a majority among the annotators; they are skipped.
UNDECIDED = "-"
# SICK.txt contains all three parts; this column says to which part a pair belongs.
PART_COLUMN = "SemEval_set"
PART_VALUES = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}


def read_pairs(
    path: Path,
    *,
    text: Sequence[str] | None = None,
    label: str | None = None,
    split: SplitFunction = str.split,
    empty: EmptyTextPolicy = "error",
    encoding: str | None = None,
) -> list[Example[str | tuple[str, ...]]]:
    """Read labeled text pairs, skipping pairs without a majority label.

    The file is a table or JSON records; `SICK.txt/train` selects a part of SICK. Known data sets
    (SNLI, MultiNLI, SICK, KLUE-NLI) are recognized by their column names, which are the default;
    unknown labels in them are an error. The other arguments are those of `read_table`.
    """
    if text is not None and (isinstance(text, str) or len(text) != 2):
        raise ConfigError(
            "text_column must name two columns, such as --text-column premise,hypothesis "
            f"(got {text!r})."
        )
    path, part = split_part(path)
    content = read_text(path, encoding)
    is_json = content.lstrip()[:1] in ("[", "{")
    columns = field_names(path, content) if is_json else column_names(path, content)
    texts = text or next((pair for pair in PAIR_COLUMNS if set(pair) <= set(columns)), None)
    has_explicit_names = text is not None or label is not None
    label = label or next((name for name in LABELS if name in columns), None)
    if texts is None or label is None:
        raise FormatError(
            f"{path}, line 1: columns for a text pair and its label are missing. The columns are: "
            f"{', '.join(columns)}. Expected "
            f"{' or '.join(' and '.join(pair) for pair in PAIR_COLUMNS)}, and one of "
            f"{', '.join(LABELS)}. Name other columns with --text-column first,second "
            "and --label-column."
        )
    if part is not None and (is_json or PART_COLUMN not in columns):
        raise FormatError(
            f"{path}: cannot select the part {part!r}, because there is no column {PART_COLUMN}."
        )
    is_inference = label in INFERENCE_LABELS and not has_explicit_names
    reader = read_jsonl if is_json else read_table
    examples: Sequence[Example[str | tuple[str, ...]]] = reader(
        path,
        text=texts,
        label=label,
        id=next((name for name in NAMES if name in columns), None),
        split=split,
        empty=empty,
        row_filter=partial(_is_selected, label, is_inference, part),
        encoding=encoding,
    )
    if not examples:
        raise FormatError(
            f"{path}: contains no labeled pairs" + (f" for the part {part!r}." if part else ".")
        )
    return list(examples)


def _is_selected(
    label: str,
    is_inference: bool,
    part: str | None,
    record: Mapping[str, object],
    location: Location,
) -> bool:
    """Whether a pair has a majority label and belongs to the selected part of SICK, if any.

    If `is_inference`, other labels than those of natural language inference are an error.
    """
    value = record.get(label)
    if isinstance(value, list):
        raise FormatError(f"{location}: {label} has {len(value)} values; expected one label.")
    # A missing label is reported when the label is read.
    is_known = value in (None, "", UNDECIDED) or str(value).lower() in INFERENCES
    if is_inference and not is_known:
        raise FormatError(
            f"{location}: unknown {label} {shortened(value, 100)!r}. Expected one of: "
            f"{', '.join(INFERENCES)}, or {UNDECIDED} for none. To read other labels, use "
            f"--label-column {label}."
        )
    return value != UNDECIDED and (part is None or record[PART_COLUMN] == PART_VALUES[part])
