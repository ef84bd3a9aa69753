"""Reader for GAP (Webster et al., 2018): pronouns with two candidate names each."""

import re
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import FormatError, InputError
from elmo.tasks.core.example import Example, IndexRange
from elmo.tasks.core.passage import Passage
from elmo.tasks.coreference.pronoun_scores import References
from elmo.tasks.files.text_lines import read_text, split_lines
from elmo.text.line_splitter import SplitFunction
from elmo.text.sentences import split_sentences

COLUMNS = (
    *("ID", "Text", "Pronoun", "Pronoun-offset"),
    *("A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"),
)
GENDERS = {
    **dict.fromkeys(("he", "him", "his"), "masculine"),
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
}
LABELS = {"TRUE": True, "FALSE": False}
# Python cannot convert arbitrarily long digit strings to int.
_OFFSET = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class PronounCandidates:
    """Word ranges of a pronoun, masculine or feminine, and of the two names it may refer to."""

    pronoun: IndexRange
    a: IndexRange
    b: IndexRange
    gender: str


def read_gap(
    path: Path, *, split: SplitFunction = str.split, encoding: str | None = None
) -> list[Example[References]]:
    """Read text snippets, split into sentences.

    The target of an example is a pair of booleans: whether the pronoun refers to the first name,
    and whether it refers to the second name.
    """
    lines = split_lines(read_text(path, encoding))
    if not lines or tuple(lines[0].split("\t")) != COLUMNS:
        raise FormatError(
            f"{path}, line 1: not the header of a GAP file. Expected the columns "
            f"{', '.join(COLUMNS)}."
        )
    examples: list[Example[References]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        location = f"{path}, line {number}"
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise FormatError(f"{location}: expected {len(COLUMNS)} columns (got {len(cells)}).")
        examples.append(_example(location, dict(zip(COLUMNS, cells, strict=True)), split))
    if not examples:
        raise FormatError(f"{path}: contains no rows below the header.")
    return examples


def _example(location: str, row: dict[str, str], split: SplitFunction) -> Example[References]:
    words = split(row["Text"])
    try:
        passage = Passage.align(row["Text"], words)
    except InputError as error:
        raise FormatError(f"{location}: {error}") from None
    pronoun, a, b = (_find_words(location, passage, row, name) for name in ("Pronoun", "A", "B"))
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        raise FormatError(
            f"{location}: unknown pronoun {row['Pronoun']!r}. Expected one of: "
            f"{', '.join(GENDERS)}."
        )
    for name in ("A-coref", "B-coref"):
        if row[name].upper() not in LABELS:
            raise FormatError(f"{location}: {name} must be TRUE or FALSE (got {row[name]!r}).")
    target = LABELS[row["A-coref"].upper()], LABELS[row["B-coref"].upper()]
    texts = tuple(map(tuple, split_sentences(words)))
    candidates = PronounCandidates(pronoun, a, b, gender)
    return Example(texts, target, row["ID"], candidates)


def _find_words(location: str, passage: Passage, row: dict[str, str], name: str) -> IndexRange:
    """Return the word range of the pronoun or of a candidate name."""
    offset = row[f"{name}-offset"]
    words = passage.find_words(row[name], int(offset)) if _OFFSET.fullmatch(offset) else None
    if words is None:
        raise FormatError(
            f"{location}: the text does not contain {row[name]!r} at character {offset[:20]}."
        )
    return words
