"""Predicates and their arguments: CoNLL-2005 and CoNLL-2012 columns, and PropBank in JSON lines.

Each sentence is an example; its target is a frame for each of its predicates: the number of the
predicate, and a tag for each word (IOB2, the predicate itself as V). The numbers are given too.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from elmo.errors import FormatError
from elmo.tasks.examples import Example, Frame
from elmo.tasks.readers.columns import Line, sentences_of
from elmo.tasks.readers.json_location import Where
from elmo.tasks.readers.json_records import records
from elmo.tasks.readers.ontonotes import (
    FRAMES,
    NOTHING,
    Document,
    Row,
    document_files,
    read_documents,
)
from elmo.tasks.readers.text_lines import read_lines, read_text
from elmo.tasks.scores.semantic_role_scores import VERB
from elmo.tasks.spans import IOB2, OUTSIDE, Span, from_spans

# Of any scheme but IOB1, whose spans may begin with I-.
_TAG = re.compile(rf"{OUTSIDE}|[BIESLU]-.+")
# Arguments may begin, go on, and end at a word: (A0* * *) (V*) (A1(V*)
_BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")

# A line of the file and what stands there for an argument.
Cell = tuple[int, str]


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
        if len(rows[0]) <= column:
            raise FormatError(
                f"{path}, line {sentence[0][0]} has {len(rows[0])} columns; predicates are in "
                f"column {column}, counted from 0, of the sentences before: {sentence[0][1]!r}"
            )
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
            frame = Frame(place, _tags(_spans(path, cells), len(rows)))
            frames.append(_of_verb(frame, f"{path}, line {sentence[place][0]}"))
        words = tuple(row[0] for row in rows)
        examples.append(_example(words, frames, f"{sentence[0][0]}"))
    return _filled(path, examples)


def read_conll2012(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read the frames of CoNLL-2012 columns.

    OntoNotes is said to have a few arguments one inside another, `(ARG1(R-ARG2*)`, or around the
    predicate, `(ARG2(V*)`. The outermost is the argument. The predicate always keeps its words; an
    argument around it is what stands before it, or, where that is nothing, what stands after it.

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

    Tags are IOB2; those of BIOES and BILOU are taken too.

    Args:
        path: the file.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    examples: list[Example] = []
    for number, (where, record) in enumerate(records(path, read_text(path, encoding)), start=1):
        words = _strings(record.get("words"), where, "words")
        if not words or not isinstance(record.get("frames"), list):
            raise FormatError(f"{where} has no words, or no list of frames")
        if blank := [word for word in words if not word.strip()]:
            raise FormatError(f"{where} has {blank[0]!r} for a word, which is white space")
        frames = [_frame(frame, len(words), where) for frame in record["frames"]]
        _check_predicates(frames, where)
        examples.append(_example(words, frames, f"{number}"))
    return _filled(path, examples)


def _sentences(path: Path, document: Document) -> Iterator[Example]:
    """Give the sentences of a document of CoNLL-2012."""
    for at, rows in enumerate(document.sentences):
        frames = []
        for column in range(FRAMES, len(rows[0].columns) - 1):
            spans = _spans(path, [(row.line, row.columns[column]) for row in rows], nested=True)
            verb = _verb(path, rows, column, spans)
            frames.append(Frame(verb.start, _tags(_apart(spans, verb), len(rows))))
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
    _check_order(tags, where)
    if sum(_begins(tag) and _label(tag) == VERB for tag in tags) > 1:
        raise FormatError(
            f"{where} has a frame with pred {place} and a second {VERB}; expected one for a "
            f"predicate, and C-{VERB} for its other parts"
        )
    return _of_verb(Frame(place, tags), where)


def _check_order(tags: Sequence[str], where: Where) -> None:
    """Refuse a tag that goes on with a span which the word before it is not in."""
    for place, (before, tag) in enumerate(pairwise((OUTSIDE, *tags))):
        is_open = before[0] in "BI" and _label(before) == _label(tag)
        if tag != OUTSIDE and not _begins(tag) and not is_open:
            raise FormatError(
                f"{where} has the tag {tag!r} for word {place} of its sentence, from 0, after "
                f"{before!r}; expected B-{_label(tag)} where an argument begins"
            )


def _check_predicates(frames: Sequence[Frame], where: Where) -> None:
    """Refuse two frames of one predicate."""
    places = [frame.predicate for frame in frames]
    if twice := [place for place in places if places.count(place) > 1]:
        raise FormatError(f"{where} has two frames with pred {twice[0]}; expected one for a word")


def _begins(tag: str) -> bool:
    """Tell whether a span begins with a tag, of any scheme but IOB1."""
    return tag[0] in "BSU"


def _label(tag: str) -> str:
    return tag.partition("-")[2]


def _of_verb(frame: Frame, where: Where) -> Frame:
    """Refuse a frame whose predicate is not V; of one in two parts it may be the second, C-V."""
    labels = [_label(tag) for tag in frame.tags]
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
        if n_predicates == width - column - 1 and all(map(_BRACKETS.fullmatch, follow)):
            return column
    raise FormatError(
        f"{path}, line {sentence[0][0]} begins a sentence without a column of predicates (a lemma, "
        "or - where there is none) and one of arguments for each; the words must come first"
    )


def _spans(path: Path, cells: Sequence[Cell], *, nested: bool = False) -> list[Span]:
    """Read the brackets of a column.

    Args:
        path: the file, for messages.
        cells: of the words of a sentence.
        nested: whether one argument may stand inside another.
    """
    found: list[Span] = []
    opened: list[tuple[int, str]] = []
    for place, (line, cell) in enumerate(cells):
        match = _BRACKETS.fullmatch(cell)
        if match is None:
            raise FormatError(
                f"{path}, line {line} has {cell!r} for an argument; expected (label*)"
            )
        for label in match[1].split("(")[1:]:
            if opened and not nested:
                raise FormatError(
                    f"{path}, line {line} begins {label} inside {opened[-1][1]}: {cell!r}"
                )
            opened.append((place, label))
        for _ in match[2]:
            if not opened:
                raise FormatError(
                    f"{path}, line {line} ends an argument that was not begun: {cell!r}"
                )
            start, label = opened.pop()
            found.append(Span(start, place + 1, label))
    if opened:
        raise FormatError(f"{path}, line {cells[-1][0]} ends its sentence inside {opened[-1][1]}")
    return found


def _verb(path: Path, rows: Sequence[Row], column: int, spans: Sequence[Span]) -> Span:
    """Find the predicate of a column, which has one."""
    verbs = sorted(span for span in spans if span.label == VERB)
    if not verbs:
        raise FormatError(
            f"{path}, line {rows[0].line} begins a sentence whose column {column} has "
            f"arguments of no predicate: there is no ({VERB}* in it"
        )
    if len(verbs) > 1:
        raise FormatError(
            f"{path}, line {rows[verbs[1].start].line} begins a second {VERB} in column {column}; "
            f"expected one for a predicate, and C-{VERB} for its other parts"
        )
    return verbs[0]


def _apart(spans: Sequence[Span], verb: Span) -> list[Span]:
    """Give the predicate and the outermost arguments, cut so that none has a word of it."""
    kept = [verb]
    end = 0
    # Of those that begin at a word the longest comes first, and of those with the same words the
    # one that is closed last: what then ends no later than one before it is inside that.
    for span in sorted(reversed(spans), key=lambda span: (span.start, -span.end)):
        if span.end <= end:
            continue
        end = span.end
        kept.extend(_beside(span, verb))
    return kept


def _beside(span: Span, verb: Span) -> list[Span]:
    """Give what an argument has before the predicate, or else after it; nothing inside it."""
    if span.end <= verb.start or verb.end <= span.start:
        return [span]
    before = span._replace(end=verb.start)
    after = span._replace(start=verb.end)
    return [part for part in (before, after) if part.start < part.end][:1]


def _tags(spans: Sequence[Span], n_words: int) -> tuple[str, ...]:
    return tuple(from_spans(spans, n_words, IOB2))


def _filled(path: Path, examples: list[Example]) -> list[Example]:
    if not any(example.target for example in examples):
        raise FormatError(f"{path} holds no predicate")
    return examples
