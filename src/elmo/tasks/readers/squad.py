"""Questions on passages: SQuAD 1.1 and 2.0, KorQuAD 1.0, XQuAD; and flat lists of such questions.

The files of SQuAD are one JSON object: `data`, `paragraphs` with a `context`, `qas` with a
`question` and its `answers`. A flat list has `context`, `question` and `answer` (or `answers`) in
each record.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo.errors import FormatError, InputError
from elmo.tasks.examples import Example, GoldAnswers, Passage
from elmo.tasks.readers.json_location import Inside, Where
from elmo.tasks.readers.json_records import parsed, records, whole
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.text_lines import read_text

# An answer and its first character, where that is known.
Answer = tuple[str, int | None]


def read_squad(
    path: Path, *, split: SplitFunction = str.split, encoding: str | None = None
) -> list[Example]:
    """Read questions, their passages and answers.

    A question without answers (`is_impossible`) has `GoldAnswers()` for its target. Plausible
    answers to such questions are not read.

    Args:
        path: the file.
        split: makes words of a text: the tokeniser of the model.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    text = read_text(path, encoding)
    examples: list[Example] = []
    passages: dict[str, tuple[tuple[str, ...], Passage]] = {}
    for where, context, question, answers, name in _questions(path, text):
        if context not in passages:
            words = tuple(split(context))
            if not words:
                raise FormatError(f"{where} has a passage without words")
            try:
                passages[context] = words, Passage.align(context, words)
            except InputError as error:
                raise FormatError(f"{where}: {error}") from None
        words, passage = passages[context]
        asked = tuple(split(question))
        if not asked:
            raise FormatError(f"{where} has a question without words")
        target = _target(where, passage, answers)
        examples.append(Example((asked, words), target, name, passage))
    if not examples:
        raise FormatError(f"{path} holds no question")
    return examples


def _target(where: Where, passage: Passage, answers: list[Answer]) -> GoldAnswers:
    places = [passage.find_words(*answer) for answer in answers]
    for (text, start), place in zip(answers, places, strict=True):
        if place is None:
            at = "" if start is None else f" at character {start}"
            raise FormatError(f"{where}: its passage does not hold the answer {text!r}{at}")
    return GoldAnswers(tuple(text for text, _ in answers), places[0] if places else None)


def _questions(path: Path, text: str) -> Iterator[tuple[Where, str, str, list[Answer], str]]:
    """Give where each question stands, its passage, itself, its answers and its name."""
    value = parsed(text, str(path), "file of questions", first_line=1) if _is_whole(text) else None
    if not isinstance(value, dict) or "data" not in value:
        for where, record in records(path, text):
            yield _flat(where, record)
        return
    if not isinstance(value["data"], list):
        raise FormatError(
            f"{Inside(path, text, ('data',), 'data')} is {json.dumps(value['data'])[:100]}; "
            "expected a list of articles"
        )
    for at, article in enumerate(value["data"]):
        outer = Inside(path, text, ("data", at), f"article {at + 1}")
        for place, paragraph in enumerate(_list(article, "paragraphs", outer)):
            here = outer.inner("paragraphs", place, name=f"paragraph {place + 1}")
            context = _string(paragraph, "context", here)
            for number, asked in enumerate(_list(paragraph, "qas", here)):
                where = here.inner("qas", number, name=f"question {number + 1}")
                name = asked.get("id", "") if isinstance(asked, dict) else ""
                yield (
                    where,
                    context,
                    _string(asked, "question", where),
                    _answers(asked, where),
                    str(name),
                )


def _is_whole(text: str) -> bool:
    """Tell one JSON object from JSON lines: of those the first line is a record of its own."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        first = json.loads(text.lstrip().split("\n", 1)[0])
    except (ValueError, RecursionError):
        return True
    return "data" in first


def _flat(where: Where, record: dict[str, Any]) -> tuple[Where, str, str, list[Answer], str]:
    answers: list[Answer]
    if "answer" in record and _can_be_answered(record, "answer", where):
        answers = [(_string(record, "answer", where), None)]
    else:
        answers = _answers(record, where)
    context, question = _string(record, "context", where), _string(record, "question", where)
    return where, context, question, answers, str(record.get("id", ""))


def _answers(asked: dict[str, Any], where: Where) -> list[Answer]:
    if not _can_be_answered(asked, "answers", where):
        return []
    found: list[Answer] = []
    for answer in _list(asked, "answers", where):
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        if not isinstance(start, int) or isinstance(start, bool):
            raise FormatError(f"{where} has an answer without a number for its answer_start")
        text = _string(answer, "text", where)
        if not text.strip():
            raise FormatError(f"{where} has an answer without a text")
        found.append((text, start))
    if not found:
        raise FormatError(f"{where} has no answer, and does not say that it is_impossible")
    return found


def _can_be_answered(asked: dict[str, Any], name: str, where: Where) -> bool:
    """Read `is_impossible`, and refuse it beside an answer.

    Args:
        asked: the question.
        name: of the field of its answers.
        where: file and line, for messages.
    """
    is_impossible = asked.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise FormatError(
            f"{where} has {json.dumps(is_impossible)[:100]} for is_impossible; expected true or "
            "false, without quotes"
        )
    if is_impossible and asked.get(name):
        raise FormatError(f"{where} says that it is_impossible, and has {name!r}")
    return not is_impossible


def _list(value: Any, name: str, where: Where) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise FormatError(f"{where} has no list {name!r}")
    return found


def _string(value: Any, name: str, where: Where) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise FormatError(f"{where} has no text {name!r}")
    # Of one character each, so that places in the text stay what they are.
    return whole(found)
