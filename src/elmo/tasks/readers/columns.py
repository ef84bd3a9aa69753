"""Words and tags in columns, one word a line, blank lines between sentences: CoNLL and its kin."""

import re
from collections.abc import Iterator
from pathlib import Path

from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example, WordLines
from elmo.tasks.readers.text_lines import is_blank, read_lines

DOCUMENT = "-DOCSTART-"
# Columns of CoNLL-U that may be asked for as tags.
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
RANGE_OR_EMPTY = re.compile(r"\d+-\d+|\d+\.\d+")
SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(.*\S)\s*")
KLP_TAG = re.compile(r"O|I|B[_-](.+)|I[_-](.+)")

# A line by its number in the file, from 1.
Line = tuple[int, str]


def read_conll(
    path: Path, *, words: int = 0, tags: int | None = -1, encoding: str | None = None
) -> list[Example]:
    """Read a file of columns, such as CoNLL-2003.

    Columns stand between tabs where a line has any, else between spaces; each line has as many as
    the first. Lines of documents (-DOCSTART-) are no words.

    Args:
        path: the file.
        words: number of the words' column, from 0; from the end where negative.
        tags: number of the tags' column; None where they are not wanted.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    width = 0
    examples: list[Example] = []
    for sentence in sentences_of(read_lines(path, encoding)):
        rows = []
        for number, line in sentence:
            row = _split(path, number, line)
            width = width or _wide_enough(path, number, len(row), words, tags)
            if len(row) != width:
                raise FormatError(
                    f"{path}, line {number} has {_columns(len(row))}, the lines before have "
                    f"{width}: {line!r}"
                )
            rows.append(row)
        target = None if tags is None else tuple(row[tags] for row in rows)
        where = _where(path, sentence, sentence)
        examples.append(Example((tuple(row[words] for row in rows),), target, location=where))
    return _filled(path, examples, "columns")


def read_klp(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read the Korean files of KLP-2016 (KMOU's `ner.train`): number, morpheme, part, tag.

    A sentence is headed by itself (`;`) and by its marked form (`$`); both are no words. The tags
    `B_PS` and `I` become `B-PS` and `I-PS`, which is IOB2.

    Args:
        path: the file.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    width = 0
    examples: list[Example] = []
    for sentence in sentences_of(read_lines(path, encoding)):
        words, tags = [], ["O"]
        rows = _without_heads(sentence)
        for number, line in rows:
            row = _split(path, number, line)
            width = width or _wide_enough(path, number, len(row), -3, -1)
            if len(row) != width:
                raise FormatError(
                    f"{path}, line {number} has {_columns(len(row))}, expected {width}: {line!r}"
                )
            words.append(row[-3])
            tags.append(_klp_tag(path, number, row[-1], tags[-1]))
        if not words:
            raise FormatError(f"{path}, line {sentence[0][0]} heads a sentence without words")
        where = _where(path, sentence, rows)
        examples.append(Example((tuple(words),), tuple(tags[1:]), location=where))
    return _filled(path, examples, "KLP-2016")


def read_conllu(
    path: Path, *, tags: str | None = "upos", encoding: str | None = None
) -> list[Example]:
    """Read words and tags of a CoNLL-U file, without its surface ranges and empty nodes.

    Args:
        path: the file.
        tags: name of the tags' column, `upos` or `xpos` as a rule; None where they are not wanted.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    if tags is not None and tags not in CONLLU:
        raise ConfigError(f"CoNLL-U has no column {tags!r}; it has {', '.join(CONLLU)}")
    examples: list[Example] = []
    for sentence in sentences_of(read_lines(path, encoding)):
        name = ""
        rows: list[list[str]] = []
        own: list[Line] = []
        for number, line in sentence:
            if line.startswith("#"):
                match = SENTENCE_ID.fullmatch(line)
                name = match[1] if match else name
            elif row := _conllu_row(path, number, line, len(rows) + 1):
                rows.append(row)
                own.append((number, line))
        if not rows:
            continue
        target = None if tags is None else tuple(row[CONLLU.index(tags)] for row in rows)
        where = _where(path, sentence, own)
        examples.append(Example((tuple(row[1] for row in rows),), target, name, location=where))
    _filled(path, examples, "CoNLL-U")
    if tags is not None and all(set(example.target) == {"_"} for example in examples):
        raise FormatError(f"{path} has no {tags}: each word has '_' there")
    return examples


def sentences_of(lines: list[str]) -> Iterator[list[Line]]:
    """Give the lines of each sentence; lines of documents end one as blank lines do."""
    sentence: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if not is_blank(line) and not line.startswith(DOCUMENT):
            sentence.append((number, line))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _where(path: Path, sentence: list[Line], words: list[Line]) -> WordLines:
    """Say where a sentence begins and each of its words stands."""
    return WordLines(path, sentence[0][0], tuple(number for number, _ in words))


def _split(path: Path, number: int, line: str) -> list[str]:
    """Cut a line into columns; other white space than spaces and tabs may be inside a word."""
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    row = [column.strip(" ") for column in line.split("\t")]
    if not all(row):
        raise FormatError(f"{path}, line {number} has an empty column: {line!r}")
    return row


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _wide_enough(path: Path, number: int, width: int, words: int, tags: int | None) -> int:
    """Give the width of the first line where it has the columns that are asked for."""
    for name, column in (("words", words), ("tags", tags)):
        if column is not None and not -width <= column < width:
            raise FormatError(
                f"{path}, line {number} has {_columns(width)}; the {name} were said to be in "
                f"column {column}, counted from 0"
            )
    if tags is not None and words % width == tags % width:
        raise FormatError(
            f"{path}, line {number} has {_columns(width)}: words and tags cannot both be in "
            f"column {words % width}; name another for the tags with --label"
        )
    return width


def _without_heads(sentence: list[Line]) -> list[Line]:
    """Leave out the two lines above a sentence; a word may be `;` or `$` too, after a number."""
    first = 0
    for mark in (";", "$"):
        if first < len(sentence) and sentence[first][1].startswith(mark):
            # Without numbers, `;` may be the first word; then the line has its columns.
            first += sentence[first][1].count("\t") < 2
    return sentence[first:]


def _klp_tag(path: Path, number: int, tag: str, before: str) -> str:
    """Write a tag as IOB2 does."""
    match = KLP_TAG.fullmatch(tag)
    if match is None:
        raise FormatError(f"{path}, line {number} has the tag {tag!r}; expected O, B_label or I")
    if tag == "O":
        return tag
    if match[1]:
        return f"B-{match[1]}"
    if match[2]:
        return f"I-{match[2]}"
    if before == "O":
        raise FormatError(f"{path}, line {number} has the tag I after no B_label")
    return f"I-{before[2:]}"


def _conllu_row(path: Path, number: int, line: str, expected: int) -> list[str] | None:
    """Give the columns of a line, None where it is no word of its own."""
    row = line.split("\t")
    if len(row) != len(CONLLU) or not all(row):
        raise FormatError(
            f"{path}, line {number} has {_columns(len(row))}; CoNLL-U has {len(CONLLU)} between "
            f"tabs, none of them empty: {line!r}"
        )
    if RANGE_OR_EMPTY.fullmatch(row[0]):
        return None
    if row[0] != str(expected):
        raise FormatError(
            f"{path}, line {number} begins with {row[0]!r}; expected word {expected} of its "
            "sentence, or a blank line before a new one"
        )
    return row


def _filled(path: Path, examples: list[Example], kind: str) -> list[Example]:
    if not examples:
        raise FormatError(f"{path} holds no sentence; expected {kind}")
    return examples
