"""Reader for question answering: SQuAD 1.1 and 2.0, KorQuAD 1.0, XQuAD, flat question lists.

A file in SQuAD format is one JSON object. Its `data` is a list of articles with `paragraphs`; a
paragraph has a `context` and `qas`, and each of these has a `question` and its `answers`. In a flat
list, each record has `context` (or `passage`), `question` and `answer` (or `answers`). A table has
the same columns; an empty answer is that of an unanswerable question.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from elmo.errors import ConfigError, FormatError, InputError, shortened
from elmo.tasks.core.example import Example
from elmo.tasks.core.passage import Passage
from elmo.tasks.files.delimited_tables import column_names, table_records
from elmo.tasks.files.json_location import JSONLocation, Location
from elmo.tasks.files.json_records import (
    field_value,
    parse_json,
    records,
    replace_lone_surrogates,
)
from elmo.tasks.files.text_lines import read_text
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.text.line_splitter import SplitFunction

# An answer and the index of its first character; None if unknown.
Answer = tuple[str, int | None]


def read_squad(
    path: Path,
    *,
    text: Sequence[str] | None = None,
    label: str | None = None,
    split: SplitFunction = str.split,
    encoding: str | None = None,
) -> list[Example[GoldAnswers]]:
    """Read questions with their passages and answers.

    The target of an unanswerable question (`is_impossible`) is `GoldAnswers()`; its plausible
    answers are ignored. `text` names question and passage, `label` the answers, of flat records and
    tables; by default, the names above.
    """
    if text is not None and (isinstance(text, str) or len(text) != 2):
        raise ConfigError(
            "text_column must name the columns of the question and the passage, such as "
            f"--text-column question,context (got {text!r})."
        )
    content = read_text(path, encoding)
    examples: list[Example[GoldAnswers]] = []
    passages: dict[str, tuple[tuple[str, ...], Passage]] = {}
    for location, context, question, answers, name in _questions(path, content, text, label):
        if context not in passages:
            words = tuple(split(context))
            if not words:
                raise FormatError(f"{location}: the passage has no words.")
            try:
                passages[context] = words, Passage.align(context, words)
            except InputError as error:
                raise FormatError(f"{location}: {error}") from None
        words, passage = passages[context]
        question_words = tuple(split(question))
        if not question_words:
            raise FormatError(f"{location}: the question has no words.")
        target = _target(location, passage, answers)
        examples.append(Example((question_words, words), target, name, passage, location))
    if not examples:
        raise FormatError(f"{path}: contains no questions.")
    return examples


def _target(location: Location, passage: Passage, answers: list[Answer]) -> GoldAnswers:
    word_ranges = [passage.find_words(*answer) for answer in answers]
    for (text, start), word_range in zip(answers, word_ranges, strict=True):
        if word_range is None:
            position = "" if start is None else f" at character {start}"
            raise FormatError(
                f"{location}: the passage does not contain the answer {text!r}{position}."
            )
    return GoldAnswers(tuple(text for text, _ in answers), word_ranges[0] if word_ranges else None)


def _questions(
    path: Path, text: str, columns: Sequence[str] | None, label: str | None
) -> Iterator[tuple[Location, str, str, list[Answer], str]]:
    """Yield the location, passage, question, answers and id of each question."""
    value = None
    if text.strip() and text.lstrip()[0] not in "{[":
        names = _flat_names(column_names(path, text), columns, label)
        options = ("--text-column", "--text-column", "--label-column")
        rows = table_records(path, text, list(zip(names, options, strict=True)))
        for row_location, (question, context, answer) in rows:
            answers: list[Answer] = [(answer.strip(), None)] if answer.strip() else []
            yield row_location, context, question, answers, ""
        return
    if _is_single_object(text):
        value = parse_json(text, str(path), "file of questions", has_lines=True)
    if not isinstance(value, dict) or "data" not in value:
        for location, record in records(path, text):
            yield _flat(location, record, _flat_names(record, columns, label))
        return
    if not isinstance(value["data"], list):
        raise FormatError(
            f"{JSONLocation(path, text, ('data',), 'data')}: expected a list of articles "
            f"(got {shortened(json.dumps(value['data']), 100)})."
        )
    for article_number, article in enumerate(value["data"]):
        article_location = JSONLocation(
            path, text, ("data", article_number), f"article {article_number + 1}"
        )
        for number, paragraph in enumerate(_list(article, "paragraphs", article_location)):
            paragraph_location = article_location.child(
                "paragraphs", number, name=f"paragraph {number + 1}"
            )
            context = _string(paragraph, "context", paragraph_location)
            for qa_number, qa in enumerate(_list(paragraph, "qas", paragraph_location)):
                location = paragraph_location.child(
                    "qas", qa_number, name=f"question {qa_number + 1}"
                )
                question = _string(qa, "question", location)
                assert isinstance(qa, dict)  # it has a question
                name = str(qa.get("id", ""))
                yield location, context, question, _answers(qa, location), name


def _is_single_object(text: str) -> bool:
    """Whether a text is a single JSON object rather than JSON lines."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        first = json.loads(text.lstrip().split("\n", 1)[0])
    except (ValueError, RecursionError):
        return True
    return "data" in first


def _flat_names(
    names: Collection[str], columns: Sequence[str] | None, label: str | None
) -> tuple[str, str, str]:
    """Return the names of the question, the passage and the answers in flat records or a table."""
    passage = "passage" if "passage" in names and "context" not in names else "context"
    question, passage = columns or ("question", passage)
    return question, passage, label or ("answers" if "answer" not in names else "answer")


def _flat(
    location: Location, record: dict[str, object], names: tuple[str, str, str]
) -> tuple[Location, str, str, list[Answer], str]:
    question_name, context_name, name = names
    answers: list[Answer]
    if isinstance(record.get(name), str) and _can_be_answered(record, name, location):
        answers = [(_string(record, name, location), None)]
    else:
        answers = _answers(record, location, name)
    for key in (question_name, context_name):
        field_value(record, key, "--text-column", location)
    context = _string(record, context_name, location)
    question = _string(record, question_name, location)
    return location, context, question, answers, str(record.get("id", ""))


def _answers(qa: dict[str, object], location: Location, name: str = "answers") -> list[Answer]:
    if not _can_be_answered(qa, name, location):
        return []
    answers: list[Answer] = []
    if isinstance(qa.get(name), dict):
        # Columnar answers: a list of texts and a list of positions, both empty if there are none.
        texts, starts = (_list(qa[name], key, location) for key in ("text", "answer_start"))
        if not texts:
            return []
        columns = zip(texts, starts, strict=False)
        qa = {name: [{"text": text, "answer_start": start} for text, start in columns]}
    for answer in _list(qa, name, location):
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        if not isinstance(start, int) or isinstance(start, bool):
            raise FormatError(
                f"{location}: answer_start of an answer is missing or not an integer."
            )
        text = _string(answer, "text", location)
        if not text.strip():
            raise FormatError(f"{location}: the text of an answer is empty.")
        answers.append((text, start))
    if not answers:
        raise FormatError(f"{location}: there are no answers, but is_impossible is not true.")
    return answers


def _can_be_answered(qa: dict[str, object], name: str, location: Location) -> bool:
    """Whether a question is answerable; an error if it has answers but is marked impossible."""
    is_impossible = qa.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise FormatError(
            f"{location}: is_impossible must be true or false, without quotes "
            f"(got {shortened(json.dumps(is_impossible), 100)})."
        )
    if is_impossible and qa.get(name):
        raise FormatError(f"{location}: is_impossible is true, but {name!r} is not empty.")
    return not is_impossible


def _list(value: object, name: str, location: Location) -> list[object]:
    items = value.get(name) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise FormatError(f"{location}: {name!r} is missing or not a list.")
    return items


def _string(value: object, name: str, location: Location) -> str:
    text = value.get(name) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise FormatError(f"{location}: {name!r} is missing or not a string.")
    # The replacement has one character, so character positions in the text do not change.
    return replace_lone_surrogates(text)
