"""Readers for CoNLL-style files: one word per line, blank lines between sentences."""

import re
from collections.abc import Sequence
from pathlib import Path

from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example, WordLines, gold
from elmo.tasks.files.text_lines import NumberedLine, is_blank, read_lines, split_sentence_lines
from elmo.tasks.tagging.spans import span_labels

# Names of the columns of CoNLL-U.
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
RANGE_OR_EMPTY = re.compile(r"\d+-\d+|\d+\.\d+")
SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(.*\S)\s*")
KLP_TAG = re.compile(r"O|I|B[_-](.+)|I[_-](.+)")


def read_conll(
    path: Path, *, words: int = 0, tags: int | str | None = -1, encoding: str | None = None
) -> list[Example[tuple[str, ...]]]:
    """Read a file in CoNLL column format, such as CoNLL-2003.

    Columns are separated by tabs if a line contains any, otherwise by spaces; all lines must have
    the same number of columns. Document markers (-DOCSTART-) are skipped. Negative column indices
    count from the end; `tags` = None reads no tags.
    """
    if isinstance(tags, str):
        tags = _column_number(tags)
    width = 0
    examples: list[Example[tuple[str, ...]]] = []
    for sentence in split_sentence_lines(read_lines(path, encoding)):
        rows = []
        for number, line in sentence:
            row = _split(path, number, line)
            width = width or _check_width(path, number, len(row), words, tags)
            if len(row) != width:
                raise FormatError(
                    f"{path}, line {number}: the line has {_columns(len(row))}, but the previous "
                    f"lines have {width}: {line!r}"
                )
            rows.append(row)
        target = None if tags is None else tuple(row[tags] for row in rows)
        location = _location(path, sentence, sentence)
        examples.append(Example((tuple(row[words] for row in rows),), target, location=location))
    return _check_not_empty(path, examples, "one word per line in columns")


def _column_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"--label-column must be a column number, counted from 0, for CoNLL files (got "
            f"{text!r})."
        ) from None


def read_klp(path: Path, *, encoding: str | None = None) -> list[Example[tuple[str, ...]]]:
    """Read a Korean file in KLP-2016 format, such as KMOU's `ner.train`.

    The columns are word number (optional), morpheme, part of speech and tag. A sentence can be
    preceded by its raw text (`;`) and its annotated text (`$`), which are skipped. Tags such as
    `B_PS` and `I` are converted to IOB2: `B-PS` and `I-PS`.
    """
    width = 0
    examples: list[Example[tuple[str, ...]]] = []
    for sentence in split_sentence_lines(read_lines(path, encoding)):
        words, tags = [], ["O"]
        rows = _skip_header_lines(sentence)
        for number, line in rows:
            row = _split(path, number, line)
            width = width or _check_width(path, number, len(row), -3, -1)
            if len(row) != width:
                raise FormatError(
                    f"{path}, line {number}: the line has {_columns(len(row))}; expected {width}: "
                    f"{line!r}"
                )
            words.append(row[-3])
            tags.append(_klp_tag(path, number, row[-1], tags[-1]))
        if not words:
            raise FormatError(f"{path}, line {sentence[0][0]}: the sentence has no words.")
        location = _location(path, sentence, rows)
        examples.append(Example((tuple(words),), tuple(tags[1:]), location=location))
    return _check_not_empty(path, examples, "the format of KLP-2016")


def read_conllu(
    path: Path, *, tags: str | None = "upos", encoding: str | None = None
) -> list[Example[tuple[str, ...]]]:
    """Read the words and tags of a CoNLL-U file, skipping multiword token ranges and empty nodes.

    `tags` is the name of a column, usually `upos` or `xpos`; None to read no tags.
    """
    if tags is not None and tags not in CONLLU:
        raise ConfigError(f"CoNLL-U has no column {tags!r}. Expected one of: {', '.join(CONLLU)}.")
    examples: list[Example[tuple[str, ...]]] = []
    for sentence in split_sentence_lines(read_lines(path, encoding)):
        name = ""
        rows: list[list[str]] = []
        word_lines: list[NumberedLine] = []
        for number, line in sentence:
            if line.startswith("#"):
                match = SENTENCE_ID.fullmatch(line)
                name = match[1] if match else name
            elif row := _conllu_row(path, number, line, len(rows) + 1):
                rows.append(row)
                word_lines.append((number, line))
        if not rows:
            continue
        target = None if tags is None else tuple(row[CONLLU.index(tags)] for row in rows)
        location = _location(path, sentence, word_lines)
        examples.append(Example((tuple(row[1] for row in rows),), target, name, location=location))
    _check_not_empty(path, examples, "CoNLL-U")
    if tags is not None and all(set(gold(example)) == {"_"} for example in examples):
        raise FormatError(f"{path}: the column {tags} is empty ('_' for every word).")
    return examples


def has_columns(lines: list[str]) -> bool:
    """Whether lines can be CoNLL columns: the same number in each, sentences apart."""
    sentences = list(split_sentence_lines(lines))
    widths = {len(_columns_of(line)) for sentence in sentences for _, line in sentence}
    return len(sentences) > 1 and len(widths) == 1


def has_tagged_columns(lines: list[str], labels: Sequence[str]) -> bool:
    """Whether lines are CoNLL columns, the last with mostly tags of a model, in any scheme."""
    if not has_columns(lines):
        return False
    rows = [_columns_of(line) for line in lines if not is_blank(line)]
    types = span_labels(labels) - {""}
    known = sum(row[-1] in labels or row[-1].partition("-")[2] in types for row in rows)
    return len(rows[0]) > 1 and known >= len(rows) / 2


def _location(path: Path, sentence: list[NumberedLine], words: list[NumberedLine]) -> WordLines:
    """Return the locations of a sentence and its words, for error messages."""
    return WordLines(path, sentence[0][0], tuple(number for number, _ in words))


def _columns_of(line: str) -> list[str]:
    """Split a line into columns at tabs or, if there are none, at spaces."""
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    return [column.strip(" ") for column in line.split("\t")]


def _split(path: Path, number: int, line: str) -> list[str]:
    """Split a line into columns that are not empty."""
    row = _columns_of(line)
    if not all(row):
        raise FormatError(f"{path}, line {number}: a column is empty: {line!r}")
    return row


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _check_width(path: Path, number: int, width: int, words: int, tags: int | None) -> int:
    """Check that the word column and the tag column exist and differ; return the width."""
    for name, column in (("words", words), ("tags", tags)):
        if column is not None and not -width <= column < width:
            raise FormatError(
                f"{path}, line {number}: the {name} should be in column {column}, counted from 0, "
                f"but the line has {_columns(width)}."
            )
    if tags is not None and words % width == tags % width:
        raise FormatError(
            f"{path}, line {number}: words and tags cannot both be in column {words % width} (the "
            f"line has {_columns(width)}). Choose another column for the tags with --label-column."
        )
    return width


def _skip_header_lines(sentence: list[NumberedLine]) -> list[NumberedLine]:
    """Return a KLP-2016 sentence without its header lines, which begin with `;` and `$`."""
    first = 0
    for prefix in (";", "$"):
        if first < len(sentence) and sentence[first][1].startswith(prefix):
            # In files without word numbers, `;` can be a word; then the line has several columns.
            first += sentence[first][1].count("\t") < 2
    return sentence[first:]


def _klp_tag(path: Path, number: int, tag: str, previous: str) -> str:
    """Convert a KLP-2016 tag to IOB2."""
    match = KLP_TAG.fullmatch(tag)
    if match is None:
        raise FormatError(f"{path}, line {number}: unknown tag {tag!r}. Expected O, B_label or I.")
    if tag == "O":
        return tag
    if match[1]:
        return f"B-{match[1]}"
    if match[2]:
        return f"I-{match[2]}"
    if previous == "O":
        raise FormatError(f"{path}, line {number}: the tag I does not follow B_label or I.")
    return f"I-{previous[2:]}"


def _conllu_row(path: Path, number: int, line: str, expected: int) -> list[str] | None:
    """Return the columns of a line, or None for a multiword token range or an empty node."""
    row = line.split("\t")
    if len(row) != len(CONLLU) or not all(row):
        raise FormatError(
            f"{path}, line {number}: the line has {_columns(len(row))}; CoNLL-U has {len(CONLLU)} "
            f"non-empty columns separated by tabs: {line!r}"
        )
    if RANGE_OR_EMPTY.fullmatch(row[0]):
        return None
    if row[0] != str(expected):
        raise FormatError(
            f"{path}, line {number}: unexpected word number {row[0]!r}. Expected {expected}, or a "
            "blank line before a new sentence."
        )
    return row


def _check_not_empty(
    path: Path, examples: list[Example[tuple[str, ...]]], description: str
) -> list[Example[tuple[str, ...]]]:
    if not examples:
        raise FormatError(f"{path}: contains no sentences. Expected {description}.")
    return examples
