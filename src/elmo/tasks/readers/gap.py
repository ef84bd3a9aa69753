"""Pronouns and two names, one of which each may mean: the tables of GAP (Webster et al., 2018)."""

import re
from pathlib import Path

from elmo.errors import FormatError, InputError
from elmo.tasks.examples import Example, IndexRange, Passage, PronounCandidates
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.text_lines import lines_of, read_text
from elmo.text.sentences import split_sentences

COLUMNS = (
    *("ID", "Text", "Pronoun", "Pronoun-offset"),
    *("A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"),
)
GENDERS = {
    **dict.fromkeys(("he", "him", "his"), "masculine"),
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
}
ANSWERS = {"TRUE": True, "FALSE": False}
# Of more digits Python may make no number.
_OFFSET = re.compile(r"\d{1,9}")


def read_gap(
    path: Path, *, split: SplitFunction = str.split, encoding: str | None = None
) -> list[Example]:
    """Read snippets, cut into sentences; the target says of both names whether they are meant.

    Args:
        path: the file.
        split: makes words of a text: the tokeniser of the model.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    lines = lines_of(read_text(path, encoding))
    if not lines or tuple(lines[0].split("\t")) != COLUMNS:
        raise FormatError(f"{path}, line 1 is no header of GAP: expected {', '.join(COLUMNS)}")
    examples: list[Example] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        where = f"{path}, line {number}"
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise FormatError(f"{where} has {len(cells)} columns, expected {len(COLUMNS)}")
        examples.append(_example(where, dict(zip(COLUMNS, cells, strict=True)), split))
    if not examples:
        raise FormatError(f"{path} holds no row below its header")
    return examples


def _example(where: str, row: dict[str, str], split: SplitFunction) -> Example:
    words = split(row["Text"])
    try:
        passage = Passage.align(row["Text"], words)
    except InputError as error:
        raise FormatError(f"{where}: {error}") from None
    pronoun, a, b = (_place(where, passage, row, name) for name in ("Pronoun", "A", "B"))
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        raise FormatError(
            f"{where} has the pronoun {row['Pronoun']!r}; expected one of {', '.join(GENDERS)}"
        )
    target = []
    for name in ("A-coref", "B-coref"):
        if row[name].upper() not in ANSWERS:
            raise FormatError(f"{where} has {row[name]!r} for {name}; expected TRUE or FALSE")
        target.append(ANSWERS[row[name].upper()])
    texts = tuple(map(tuple, split_sentences(words)))
    given = PronounCandidates(pronoun, a, b, gender)
    return Example(texts, tuple(target), row["ID"], given)


def _place(where: str, passage: Passage, row: dict[str, str], name: str) -> IndexRange:
    offset = row[f"{name}-offset"]
    place = passage.find_words(row[name], int(offset)) if _OFFSET.fullmatch(offset) else None
    if place is None:
        raise FormatError(
            f"{where}: its text does not hold {row[name]!r} at character {offset[:20]}"
        )
    return place
