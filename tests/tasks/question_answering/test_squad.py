"""Tests for the reader of SQuAD files and flat question lists."""

import json

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.question_answering.squad import read_squad
from elmo.text.tokenizer import EnglishTokenizer

PASSAGE = "He left, and came back. He left again."
SPLIT = EnglishTokenizer().words


@pytest.fixture
def write(tmp_path):
    def write(value, name="file.json"):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write


def squad(*questions):
    return {"version": "1.1", "data": [{"paragraphs": [{"context": PASSAGE, "qas": questions}]}]}


def qa(*answers, **fields):
    records = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Who left?", "answers": records, **fields}


def flat_unanswerable():
    """Return a flat record for an unanswerable question with an empty answer."""
    return [{"context": PASSAGE, "question": "Why?", "answer": "", "is_impossible": True}]


@pytest.mark.parametrize("indent", [None, 2])
def test_read_squad_returns_questions_passages_and_answers(write, indent):
    text = json.dumps(squad(qa(("left again", 27), ("again", 32)), qa(("He", 24))), indent=2)
    first, second = read_squad(write(text), split=SPLIT)
    assert first.texts[0] == ("Who", "left", "?")
    assert first.texts[1][:4] == ("He", "left", ",", "and")
    assert first.id == "q1"
    assert first.extra.text == PASSAGE
    assert first.target.texts == ("left again", "again")
    assert first.extra.text_of(first.target.word_range) == "left again"
    # The second occurrence of He, as given by answer_start.
    assert second.target.word_range == (7, 8)
    # The passage is only processed once.
    assert first.extra is second.extra


def test_read_squad_returns_empty_target_for_unanswerable_question(write):
    plausible = [{"text": "He", "answer_start": 0}]
    for value in (squad(qa(is_impossible=True, plausible_answers=plausible)), flat_unanswerable()):
        (example,) = read_squad(write(value))
        assert example.target == GoldAnswers()
    (example,) = read_squad(write(squad(qa(("He", 0), is_impossible=False))))
    assert example.target == GoldAnswers(("He",), (0, 1))


def test_read_squad_extends_answer_inside_word_to_whole_word(write):
    """The target is the whole word, but the gold answer text is unchanged."""
    (example,) = read_squad(write(squad(qa(("ack", 19)))))
    assert example.target.texts == ("ack",)
    assert example.extra.text_of(example.target.word_range) == "back."


def test_read_squad_reads_flat_records(write):
    records = [
        {"context": PASSAGE, "question": "Who?", "answer": "He"},
        {"context": "there, the end", "question": "What?", "answer": "the"},
    ]
    for text in (json.dumps(records), "\n".join(map(json.dumps, records))):
        first, second = read_squad(write(text), split=SPLIT)
        assert first.target == GoldAnswers(("He",), (0, 1))
        # A whole word is preferred to a part of an earlier word.
        assert second.target == GoldAnswers(("the",), (2, 3))


def test_read_squad_reads_tables(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text(f'q,passage,a\nWho?,"{PASSAGE}",He\nWhy?,"{PASSAGE}",\n')
    first, second = read_squad(path, text=("q", "passage"), label="a", split=SPLIT)
    assert first.target == GoldAnswers(("He",), (0, 1))
    assert second.target == GoldAnswers()
    assert str(second.location) == f"{path}, line 3"
    with pytest.raises(FormatError, match=r"no column 'question'\. .*: 'q', 'passage', 'a'"):
        read_squad(path)
    with pytest.raises(ConfigError, match="text_column must name the columns of the question"):
        read_squad(path, text="q")
    path.write_text(f"question\tpassage\tanswer\nWho?\t{PASSAGE}\tShe\n")
    with pytest.raises(FormatError, match=r"line 2: the passage does not contain .* 'She'"):
        read_squad(path)


def test_read_squad_reads_named_fields_and_columnar_answers(write):
    answers = {"text": ["He"], "answer_start": [24]}
    record = {"passage": PASSAGE, "query": "Who?", "gold": answers}
    (example,) = read_squad(write([record]), text=("query", "passage"), label="gold", split=SPLIT)
    assert example.target.word_range == (7, 8)
    record["gold"] = {"text": [], "answer_start": []}
    (example,) = read_squad(write([record]), text=("query", "passage"), label="gold")
    assert example.target == GoldAnswers()
    with pytest.raises(FormatError, match=r"no field 'quary'\. Did you mean query"):
        read_squad(write([record]), text=("quary", "passage"), label="gold")


def test_read_squad_reads_flat_records_with_answer_start(write):
    record = {"context": PASSAGE, "id": 3, **qa(("He", 24))}
    (example,) = read_squad(write([record]), split=SPLIT)
    assert example.target.word_range == (7, 8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"data": [\n{', "file.json, line 2: not a JSON file of questions"),
        ({"data": 3}, r"file.json, line 1, data: expected a list of articles \(got 3\)"),
        ({"data": {}}, r"line 1, data: expected a list of articles \(got {}\)"),
        ('{"version": 1,\n\n "data": {"a": 1}}', r'line 3, data: .* \(got {"a": 1}\)'),
        ({"data": None}, r"line 1, data: expected .* \(got null\)"),
        ({"data": "a" * 1000}, r'line 1, data: expected .* \(got "a{99} \.\.\.\)'),
        ({"data": [{"title": "x"}]}, "article 1: 'paragraphs' is missing or not a list"),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            "paragraph 1: 'context' is missing or not a string",
        ),
        (
            {"data": [{"paragraphs": [{"context": "a"}]}]},
            "paragraph 1: 'qas' is missing or not a list",
        ),
        (squad({"answers": []}), "question 1: 'question' is missing or not a string"),
        (squad("who?"), "question 1: 'question' is missing or not a string"),
        (squad(qa(("left", 0))), "does not contain the answer 'left' at character 0"),
        (squad(qa(("He", -15))), "does not contain the answer 'He' at character -15"),
        (squad(qa((" ", 2))), "question 1: the text of an answer is empty"),
        (squad(qa(("", 1))), "question 1: the text of an answer is empty"),
        (squad(qa(("He", None))), "answer_start of an answer is missing or not an integer"),
        (squad(qa(("He", True))), "answer_start of an answer is missing or not an integer"),
        (squad(qa()), "question 1: there are no answers, but is_impossible is not true"),
        (
            squad(qa(is_impossible=False)),
            "there are no answers, but is_impossible is not true",
        ),
        *(
            (
                squad(qa(("He", 0), is_impossible=value)),
                f"line 1, article 1, paragraph 1, question 1: is_impossible must be .*got {text}",
            )
            for value, text in (("true", '"true"'), (1, "1"), (0, "0"), (None, "null"))
        ),
        (
            squad(qa(("He", 0), is_impossible=True)),
            "line 1, .* question 1: is_impossible is true, but 'answers' is not empty",
        ),
        (
            [{"context": "a", "question": "b", "answer": "a", "is_impossible": True}],
            "line 1, record 1: is_impossible is true, but 'answer' is not empty",
        ),
        (
            [{"context": "a", "question": "b", "answer": "a", "is_impossible": "no"}],
            r'line 1, record 1: is_impossible must be .* \(got "no"\)',
        ),
        (squad(qa(("He", 0)) | {"question": " "}), "the question has no words"),
        ({"data": [{"paragraphs": [{"context": " ", "qas": [qa()]}]}]}, "question 1"),
        ({"data": []}, "contains no questions"),
        (
            [{"context": "a", "question": "b", "answer": "c"}],
            "record 1: .* contain the answer 'c'.$",
        ),
        ([{"context": " ", "question": "b", "answer": " "}], "the passage has no words"),
        ([{"context": "a", "question": "b"}], "record 1: 'answers' is missing or not a list"),
        ([3], "record 1: expected a JSON object"),
        ("", "contains no questions"),
    ],
)
def test_read_squad_rejects_invalid_file(write, value, message):
    with pytest.raises(FormatError, match=message):
        read_squad(write(value))


def test_read_squad_rejects_tokenizer_that_changes_words(write):
    with pytest.raises(FormatError, match=r"question 1: The word 'he' .*not found"):
        read_squad(write(squad(qa(("He", 0)))), split=lambda text: text.lower().split())


def test_read_squad_reports_line_of_invalid_question(write):
    good = {"qas": [qa(("He", 0))], "context": PASSAGE, "more": {"qas": [{}, "]}"]}}
    bad = {"context": PASSAGE, "qas": [qa(("He", 0)), {"question": "Who?", "answers": 3}]}
    text = json.dumps(
        {"x": [], "data": [{"paragraphs": []}, {"paragraphs": [good, bad]}]}, indent=1
    )
    line = text[: text.index('"Who?"')].count("\n")
    with pytest.raises(
        FormatError,
        match=rf"line {line}, article 2, paragraph 2, question 2: 'answers' is mis",
    ):
        read_squad(write(text))
    # If a name occurs twice, the parser keeps the last value.
    with pytest.raises(
        FormatError, match="line 3, article 1: 'paragraphs' is missing or not a list"
    ):
        read_squad(write('{"data": [],\n "data":\n [3]}'))
