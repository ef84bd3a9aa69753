"""Readers for predicate frames: CoNLL-2005 and CoNLL-2012 columns, and PropBank in JSON lines.

Each sentence is an example. Its target has one frame per predicate: the word index of the
predicate, and one IOB2 tag per word, where V marks the predicate itself. `Example.extra` also
contains the word indices of the predicates.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.json_location import Location
from elmo.tasks.files.json_records import records
from elmo.tasks.files.ontonotes import (
    EMPTY_VALUES,
    FRAMES,
    Document,
    Row,
    document_files,
    read_documents,
)
from elmo.tasks.files.text_lines import (
    NumberedLine,
    read_lines,
    read_text,
    split_sentence_lines,
)
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.semantic_role_scores import VERB
from elmo.tasks.tagging.spans import IOB2, OUTSIDE, Span, from_spans

# Tags of all schemes except IOB1, in which a span can begin with I-.
_TAG = re.compile(rf"{OUTSIDE}|[BIESLU]-.+")
# Values of an argument column: (A0* begins an argument, * continues it, *) ends it; also (V*) and
# (A1(V*).
_BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")

# Line number in the file and value of the argument column.
Cell = tuple[int, str]


def read_conll2005(path: Path, *, encoding: str | None = None) -> list[Example[tuple[Frame, ...]]]:
    """Read predicate frames from CoNLL-2005 columns.

    The first column contains the words. The last columns contain the predicates, followed by one
    argument column per predicate; any columns in between are ignored. The original release stores
    words and propositions in separate files, which must be combined first (`paste words props`).
    """
    examples: list[Example[tuple[Frame, ...]]] = []
    column: int | None = None
    for sentence in split_sentence_lines(read_lines(path, encoding)):
        rows = [line.split() for _, line in sentence]
        for (number, line), row in zip(sentence, rows, strict=True):
            if len(row) != len(rows[0]):
                raise FormatError(
                    f"{path}, line {number}: the line has {len(row)} columns, but the previous "
                    f"words of the sentence have {len(rows[0])}: {line!r}"
                )
        if column is None:
            column = _predicate_column(path, sentence, rows)
        if len(rows[0]) <= column:
            raise FormatError(
                f"{path}, line {sentence[0][0]}: the line has {len(rows[0])} columns, but in the "
                f"previous sentences the predicates are in column {column}, counted from 0: "
                f"{sentence[0][1]!r}"
            )
        predicates = [n for n, row in enumerate(rows) if row[column] not in EMPTY_VALUES]
        n_frames = len(rows[0]) - column - 1
        if len(predicates) != n_frames:
            raise FormatError(
                f"{path}, line {sentence[0][0]}: the sentence has {len(predicates)} predicates in "
                f"column {column}, but {n_frames} argument columns."
            )
        frames = []
        for n, predicate in enumerate(predicates, start=column + 1):
            cells = [(line, row[n]) for (line, _), row in zip(sentence, rows, strict=True)]
            frame = Frame(predicate, _tags(_spans(path, cells), len(rows)))
            frames.append(_check_verb(frame, f"{path}, line {sentence[predicate][0]}"))
        words = tuple(row[0] for row in rows)
        examples.append(_example(words, frames, f"{sentence[0][0]}"))
    return _check_not_empty(path, examples)


def read_conll2012(path: Path, *, encoding: str | None = None) -> list[Example[tuple[Frame, ...]]]:
    """Read predicate frames from a CoNLL-2012 file or a directory (`document_files`).

    OntoNotes reportedly contains a few arguments that are nested in others, as in `(ARG1(R-ARG2*)`,
    or that enclose the predicate, as in `(ARG2(V*)`. Of nested arguments, only the outermost one is
    read. An argument that encloses the predicate is cut down to its words before the predicate or,
    if there are none, to its words after the predicate.
    """
    examples = [
        example
        for file in document_files(path)
        for document in read_documents(file, encoding)
        for example in _sentences(file, document)
    ]
    return _check_not_empty(path, examples)


def read_propbank(path: Path, *, encoding: str | None = None) -> list[Example[tuple[Frame, ...]]]:
    """Read JSON lines with `words` and `frames`; a frame has a word index `pred` and a list `tags`.

    Tags should be IOB2; BIOES and BILOU tags are also accepted.
    """
    examples: list[Example[tuple[Frame, ...]]] = []
    for number, (location, record) in enumerate(records(path, read_text(path, encoding)), start=1):
        words = _strings(record.get("words"), location, "words")
        values = record.get("frames")
        if not words or not isinstance(values, list):
            raise FormatError(f"{location}: the words or the list of frames are missing.")
        if blank := [word for word in words if not word.strip()]:
            raise FormatError(f"{location}: the word {blank[0]!r} is only white space.")
        frames = [_frame(frame, len(words), location) for frame in values]
        _check_predicates(frames, location)
        examples.append(_example(words, frames, f"{number}"))
    return _check_not_empty(path, examples)


def _sentences(path: Path, document: Document) -> Iterator[Example[tuple[Frame, ...]]]:
    """Yield the sentences of a CoNLL-2012 document as examples."""
    for number, rows in enumerate(document.sentences):
        frames = []
        for column in range(FRAMES, len(rows[0].columns) - 1):
            spans = _spans(path, [(row.line, row.columns[column]) for row in rows], nested=True)
            verb = _verb(path, rows, column, spans)
            frames.append(Frame(verb.start, _tags(_without_nesting(spans, verb), len(rows))))
        yield _example(tuple(row.word for row in rows), frames, f"{document.name}, {number}")


def _example(
    words: tuple[str, ...], frames: Sequence[Frame], name: str
) -> Example[tuple[Frame, ...]]:
    return Example((words,), tuple(frames), name, tuple(frame.predicate for frame in frames))


def _frame(frame: object, n_words: int, location: Location) -> Frame:
    if not isinstance(frame, dict):
        raise FormatError(f"{location}: a frame is not a JSON object.")
    predicate: object = frame.get("pred")
    tags = _strings(frame.get("tags"), location, "tags")
    # Not isinstance: bool is a subclass of int.
    if type(predicate) is not int or not 0 <= predicate < n_words or len(tags) != n_words:
        raise FormatError(
            f"{location}: a frame has pred {predicate!r} and {len(tags)} tags, but the sentence "
            f"has {n_words} words."
        )
    if wrong := [tag for tag in tags if not _TAG.fullmatch(tag)]:
        raise FormatError(
            f"{location}: invalid tag {wrong[0]!r}. Expected O, or tags such as B-ARG0."
        )
    _check_order(tags, location)
    if sum(_begins(tag) and _label(tag) == VERB for tag in tags) > 1:
        raise FormatError(
            f"{location}: the frame with pred {predicate} has a second {VERB}. Expected one {VERB} "
            f"per predicate, and C-{VERB} for its other parts."
        )
    return _check_verb(Frame(predicate, tags), location)


def _check_order(tags: Sequence[str], location: Location) -> None:
    """Raise an error if a tag continues a span that does not include the previous word."""
    for index, (previous, tag) in enumerate(pairwise((OUTSIDE, *tags))):
        is_open = previous[0] in "BI" and _label(previous) == _label(tag)
        if tag != OUTSIDE and not _begins(tag) and not is_open:
            raise FormatError(
                f"{location}: the tag {tag!r} of word {index} (counted from 0) follows "
                f"{previous!r}. Expected B-{_label(tag)} at the beginning of an argument."
            )


def _check_predicates(frames: Sequence[Frame], location: Location) -> None:
    """Raise an error if two frames have the same predicate."""
    predicates = [frame.predicate for frame in frames]
    if repeated := [predicate for predicate in predicates if predicates.count(predicate) > 1]:
        raise FormatError(
            f"{location}: two frames have pred {repeated[0]}. Expected one frame per predicate."
        )


def _begins(tag: str) -> bool:
    """Whether a tag begins a span; valid for all tag schemes except IOB1."""
    return tag[0] in "BSU"


def _label(tag: str) -> str:
    return tag.partition("-")[2]


def _check_verb(frame: Frame, location: Location) -> Frame:
    """Check that the predicate of a frame is tagged V, or C-V as a later part of a verb."""
    labels = [_label(tag) for tag in frame.tags]
    if VERB not in labels or labels[frame.predicate] not in (VERB, f"C-{VERB}"):
        raise FormatError(
            f"{location}: word {frame.predicate} (counted from 0) is the predicate, but is tagged "
            f"{frame.tags[frame.predicate]!r}. Expected {VERB}."
        )
    return frame


def _strings(value: object, location: Location, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise FormatError(f"{location}: {name!r} must be a list of non-empty strings.")
    return tuple(value)


def _predicate_column(path: Path, sentence: list[NumberedLine], rows: list[list[str]]) -> int:
    """Return the index of the predicate column, which is followed by one column per predicate."""
    width = len(rows[0])
    for column in range(width - 1, 0, -1):
        n_predicates = sum(row[column] not in EMPTY_VALUES for row in rows)
        arguments = [cell for row in rows for cell in row[column + 1 :]]
        if n_predicates == width - column - 1 and all(map(_BRACKETS.fullmatch, arguments)):
            return column
    raise FormatError(
        f"{path}, line {sentence[0][0]}: cannot find the predicate column (a lemma, or - for "
        "none) followed by one argument column per predicate. The first column must be the "
        "words."
    )


def _spans(path: Path, cells: Sequence[Cell], *, nested: bool = False) -> list[Span]:
    """Parse the brackets of numbered cells into labeled spans, which can be nested if allowed."""
    spans: list[Span] = []
    opened: list[tuple[int, str]] = []
    for index, (line, cell) in enumerate(cells):
        match = _BRACKETS.fullmatch(cell)
        if match is None:
            raise FormatError(
                f"{path}, line {line}: invalid argument column {cell!r}. Expected values such as "
                "(label*)."
            )
        for label in match[1].split("(")[1:]:
            if opened and not nested:
                raise FormatError(
                    f"{path}, line {line}: {label} begins inside {opened[-1][1]}: {cell!r}"
                )
            opened.append((index, label))
        for _ in match[2]:
            if not opened:
                raise FormatError(
                    f"{path}, line {line}: an argument ends but was never opened: {cell!r}"
                )
            start, label = opened.pop()
            spans.append(Span(start, index + 1, label))
    if opened:
        raise FormatError(f"{path}, line {cells[-1][0]}: the sentence ends inside {opened[-1][1]}.")
    return spans


def _verb(path: Path, rows: Sequence[Row], column: int, spans: Sequence[Span]) -> Span:
    """Return the only span of the predicate in an argument column."""
    verbs = sorted(span for span in spans if span.label == VERB)
    if not verbs:
        raise FormatError(
            f"{path}, line {rows[0].line}: column {column} of the sentence has no predicate "
            f"({VERB}*."
        )
    if len(verbs) > 1:
        raise FormatError(
            f"{path}, line {rows[verbs[1].start].line}: column {column} has a second {VERB}. "
            f"Expected one {VERB} per predicate, and C-{VERB} for its other parts."
        )
    return verbs[0]


def _without_nesting(spans: Sequence[Span], verb: Span) -> list[Span]:
    """Return the predicate and the outermost arguments, cut so that none overlaps the predicate."""
    kept = [verb]
    end = 0
    # Of the spans that begin at the same word, the longest comes first, and of identical spans the
    # one that is closed last. A span that then ends no later than a previous one is nested in it.
    for span in sorted(reversed(spans), key=lambda span: (span.start, -span.end)):
        if span.end <= end:
            continue
        end = span.end
        kept.extend(_without_verb(span, verb))
    return kept


def _without_verb(span: Span, verb: Span) -> list[Span]:
    """Return the span of an argument before the predicate, or else after it; empty if neither."""
    if span.end <= verb.start or verb.end <= span.start:
        return [span]
    before = span._replace(end=verb.start)
    after = span._replace(start=verb.end)
    return [part for part in (before, after) if part.start < part.end][:1]


def _tags(spans: Sequence[Span], n_words: int) -> tuple[str, ...]:
    return tuple(from_spans(spans, n_words, IOB2))


def _check_not_empty(
    path: Path, examples: list[Example[tuple[Frame, ...]]]
) -> list[Example[tuple[Frame, ...]]]:
    if not any(example.target for example in examples):
        raise FormatError(f"{path}: contains no predicates.")
    return examples
