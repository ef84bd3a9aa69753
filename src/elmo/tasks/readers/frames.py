"""Predicates and their arguments: CoNLL-2005 and CoNLL-2012 columns, and PropBank in JSON lines.

Each sentence is an example; its target is a frame for each of its predicates: the number of the
predicate, and a tag for each word (IOB2, the predicate itself as V). The numbers are given too.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo.errors import FormatError
from elmo.tasks.examples import Example, Frame
from elmo.tasks.readers.columns import Line, sentences_of
from elmo.tasks.readers.inside import Where
from elmo.tasks.readers.lines import read_lines, read_text
from elmo.tasks.readers.ontonotes import (
    FRAMES,
    NOTHING,
    Document,
    document_files,
    read_documents,
)
from elmo.tasks.readers.records import records
from elmo.tasks.scores.roles import VERB
from elmo.tasks.spans import OUTSIDE

# Of any scheme.
_TAG = re.compile(rf"{OUTSIDE}|[BIESLU]-.+")
# An argument may begin, go on, and end at a word: (A0* * *) (V*)
_BRACKET = re.compile(r"(?:\(([^()*\s]+))?\*(\)?)")


def read_conll2005(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read columns of CoNLL-2005: words first, then any others, predicates, and their arguments.

    The words and the propositions of the release lie in two files: put side by side first
    (`paste words props`).

    Args:
        path: the file.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    examples: list[Example] = []
    column: int | None = None
    for sentence in sentences_of(read_lines(path, encoding)):
        rows = [line.split() for _, line in sentence]
        for (number, line), row in zip(sentence, rows, strict=True):
            if len(row) != len(rows[0]):
                raise FormatError(
                    f"{path}, line {number} has {len(row)} columns, the words before it in its "
                    f"sentence have {len(rows[0])}: {line!r}"
                )
        if column is None:
            column = _predicate_column(path, sentence, rows)
        places = [n for n, row in enumerate(rows) if row[column] not in NOTHING]
        n_frames = len(rows[0]) - column - 1
        if len(places) != n_frames:
            raise FormatError(
                f"{path}, line {sentence[0][0]} begins a sentence with {len(places)} predicates in "
                f"column {column} and {n_frames} columns of arguments; expected as many"
            )
        frames = []
        for n, place in enumerate(places, start=column + 1):
            cells = [(line, row[n]) for (line, _), row in zip(sentence, rows, strict=True)]
            tags = _tags(path, cells)
            frames.append(_of_verb(Frame(place, tags), f"{path}, line {sentence[place][0]}"))
        words = tuple(row[0] for row in rows)
        examples.append(_example(words, frames, f"{sentence[0][0]}"))
    return _filled(path, examples)


def read_conll2012(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read the frames of CoNLL-2012 columns.

    Args:
        path: a file, or a folder as `document_files` takes it.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    examples = [
        example
        for file in document_files(path)
        for document in read_documents(file, encoding)
        for example in _sentences(file, document)
    ]
    return _filled(path, examples)


def read_propbank(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read JSON lines of `words` and `frames`, each with the number of its `pred` and its `tags`.

    Args:
        path: the file.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    examples: list[Example] = []
    for number, (where, record) in enumerate(records(path, read_text(path, encoding)), start=1):
        words = _strings(record.get("words"), where, "words")
        if not words or not isinstance(record.get("frames"), list):
            raise FormatError(f"{where} has no words, or no list of frames")
        frames = [_frame(frame, len(words), where) for frame in record["frames"]]
        examples.append(_example(words, frames, f"{number}"))
    return _filled(path, examples)


def _sentences(path: Path, document: Document) -> Iterator[Example]:
    """Give the sentences of a document of CoNLL-2012."""
    for at, rows in enumerate(document.sentences):
        frames = []
        for column in range(FRAMES, len(rows[0].columns) - 1):
            tags = _tags(path, [(row.line, row.columns[column]) for row in rows])
            verb = f"B-{VERB}"
            if verb not in tags:
                raise FormatError(
                    f"{path}, line {rows[0].line} begins a sentence whose column {column} has "
                    f"arguments of no predicate: there is no ({VERB}* in it"
                )
            frames.append(Frame(tags.index(verb), tags))
        yield _example(tuple(row.word for row in rows), frames, f"{document.name}, {at}")


def _example(words: tuple[str, ...], frames: Sequence[Frame], name: str) -> Example:
    return Example((words,), tuple(frames), name, tuple(frame.predicate for frame in frames))


def _frame(frame: Any, n_words: int, where: Where) -> Frame:
    if not isinstance(frame, dict):
        raise FormatError(f"{where} has a frame that is no record")
    place: Any = frame.get("pred")
    tags = _strings(frame.get("tags"), where, "tags")
    # True is a number to Python.
    is_place = isinstance(place, int) and not isinstance(place, bool) and 0 <= place < n_words
    if not is_place or len(tags) != n_words:
        raise FormatError(
            f"{where} has a frame with pred {place!r} and {len(tags)} tags for {n_words} words"
        )
    if wrong := [tag for tag in tags if not _TAG.fullmatch(tag)]:
        raise FormatError(f"{where} has the tag {wrong[0]!r}; expected O, or such as B-ARG0")
    return _of_verb(Frame(place, tags), where)


def _of_verb(frame: Frame, where: Where) -> Frame:
    """Refuse a frame whose predicate is not V; of one in two parts it may be the second, C-V."""
    labels = [tag.partition("-")[2] for tag in frame.tags]
    if VERB not in labels or labels[frame.predicate] not in (VERB, f"C-{VERB}"):
        raise FormatError(
            f"{where} has word {frame.predicate} of its sentence, from 0, for a predicate, tagged "
            f"{frame.tags[frame.predicate]!r}; expected {VERB}"
        )
    return frame


def _strings(value: Any, where: Where, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise FormatError(f"{where} has no list of words or tags in {name!r}")
    return tuple(value)


def _predicate_column(path: Path, sentence: list[Line], rows: list[list[str]]) -> int:
    """Find the column of predicates: as many columns of arguments follow as it has predicates."""
    width = len(rows[0])
    for column in range(width - 1, 0, -1):
        n_predicates = sum(row[column] not in NOTHING for row in rows)
        follow = [cell for row in rows for cell in row[column + 1 :]]
        if n_predicates == width - column - 1 and all(map(_BRACKET.fullmatch, follow)):
            return column
    raise FormatError(
        f"{path}, line {sentence[0][0]} begins a sentence without a column of predicates (a lemma, "
        "or - where there is none) and one of arguments for each; the words must come first"
    )


def _tags(path: Path, cells: list[tuple[int, str]]) -> tuple[str, ...]:
    """Write brackets as tags.

    Args:
        path: the file, for messages.
        cells: the line of each word and what stands there.
    """
    tags = []
    label: str | None = None
    for line, cell in cells:
        match = _BRACKET.fullmatch(cell)
        if match is None:
            raise FormatError(
                f"{path}, line {line} has {cell!r} for an argument; expected (label*)"
            )
        begins, ends = match[1], match[2]
        if begins and label:
            raise FormatError(f"{path}, line {line} begins {begins} inside {label}: {cell!r}")
        if ends and not (begins or label):
            raise FormatError(f"{path}, line {line} ends an argument that was not begun: {cell!r}")
        label = begins or label
        tags.append(f"{'B' if begins else 'I'}-{label}" if label else OUTSIDE)
        label = None if ends else label
    if label:
        raise FormatError(f"{path}, line {cells[-1][0]} ends its sentence inside {label}")
    return tuple(tags)


def _filled(path: Path, examples: list[Example]) -> list[Example]:
    if not any(example.target for example in examples):
        raise FormatError(f"{path} holds no predicate")
    return examples
