"""Questions on passages: SQuAD, and what is like it."""

import json

import pytest

from elmo.errors import FormatError
from elmo.tasks.examples import GoldAnswers
from elmo.tasks.readers.squad import read_squad
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


def qa(*answers, **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Who left?", "answers": found, **more}


def flat():
    """Give a flat record with an empty answer to a question that has none."""
    return [{"context": PASSAGE, "question": "Why?", "answer": "", "is_impossible": True}]


@pytest.mark.parametrize("indent", [None, 2])
def test_questions(write, indent):
    text = json.dumps(squad(qa(("left again", 27), ("again", 32)), qa(("He", 24))), indent=2)
    first, second = read_squad(write(text), split=SPLIT)
    assert first.texts[0] == ("Who", "left", "?")
    assert first.texts[1][:4] == ("He", "left", ",", "and")
    assert first.id == "q1"
    assert first.extra.text == PASSAGE
    assert first.target.texts == ("left again", "again")
    assert first.extra.text_of(first.target.word_range) == "left again"
    # The second He, not the first one.
    assert second.target.word_range == (7, 8)
    # Of one passage, read once.
    assert first.extra is second.extra


def test_questions_without_answers(write):
    plausible = [{"text": "He", "answer_start": 0}]
    for found in (squad(qa(is_impossible=True, plausible_answers=plausible)), flat()):
        (example,) = read_squad(write(found))
        assert example.target == GoldAnswers()
    (example,) = read_squad(write(squad(qa(("He", 0), is_impossible=False))))
    assert example.target == GoldAnswers(("He",), (0, 1))


def test_an_answer_inside_a_word(write):
    """It is the word that is learned, and the answer that is compared with."""
    (example,) = read_squad(write(squad(qa(("ack", 19)))))
    assert example.target.texts == ("ack",)
    assert example.extra.text_of(example.target.word_range) == "back."


def test_flat_records(write):
    records = [
        {"context": PASSAGE, "question": "Who?", "answer": "He"},
        {"context": "there, the end", "question": "What?", "answer": "the"},
    ]
    for text in (json.dumps(records), "\n".join(map(json.dumps, records))):
        first, second = read_squad(write(text), split=SPLIT)
        assert first.target == GoldAnswers(("He",), (0, 1))
        # A word of its own comes before a piece of one.
        assert second.target == GoldAnswers(("the",), (2, 3))


def test_flat_records_with_places(write):
    record = {"context": PASSAGE, "id": 3, **qa(("He", 24))}
    (example,) = read_squad(write([record]), split=SPLIT)
    assert example.target.word_range == (7, 8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"data": [\n{', "file.json, line 2 is no JSON file of questions"),
        ({"data": 3}, "file.json, line 1, data is 3; expected a list of articles"),
        ({"data": {}}, "file.json, line 1, data is {}; expected a list of articles"),
        ('{"version": 1,\n\n "data": {"a": 1}}', 'line 3, data is {"a": 1}; expected a list'),
        ({"data": None}, "line 1, data is null; expected"),
        ({"data": "a" * 1000}, 'line 1, data is "a{99}; expected'),
        ({"data": [{"title": "x"}]}, "article 1 has no list 'paragraphs'"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "paragraph 1 has no text 'context'"),
        ({"data": [{"paragraphs": [{"context": "a"}]}]}, "paragraph 1 has no list 'qas'"),
        (squad({"answers": []}), "question 1 has no text 'question'"),
        (squad("who?"), "question 1 has no text 'question'"),
        (squad(qa(("left", 0))), "does not hold the answer 'left' at character 0"),
        (squad(qa(("He", -15))), "does not hold the answer 'He' at character -15"),
        (squad(qa((" ", 2))), "question 1 has an answer without a text"),
        (squad(qa(("", 1))), "question 1 has an answer without a text"),
        (squad(qa(("He", None))), "an answer without a number for its answer_start"),
        (squad(qa(("He", True))), "an answer without a number for its answer_start"),
        (squad(qa()), "question 1 has no answer, and does not say that it is_impossible"),
        (
            squad(qa(is_impossible=False)),
            "has no answer, and does not say that it is_impossible",
        ),
        *(
            (
                squad(qa(("He", 0), is_impossible=said)),
                f"line 1, article 1, paragraph 1, question 1 has {spelled} for is_impossible; exp",
            )
            for said, spelled in (("true", '"true"'), (1, "1"), (0, "0"), (None, "null"))
        ),
        (
            squad(qa(("He", 0), is_impossible=True)),
            "line 1, .* question 1 says that it is_impossible, and has 'answers'",
        ),
        (
            [{"context": "a", "question": "b", "answer": "a", "is_impossible": True}],
            "line 1, record 1 says that it is_impossible, and has 'answer'",
        ),
        (
            [{"context": "a", "question": "b", "answer": "a", "is_impossible": "no"}],
            'line 1, record 1 has "no" for is_impossible',
        ),
        (squad(qa(("He", 0)) | {"question": " "}), "has a question without words"),
        ({"data": [{"paragraphs": [{"context": " ", "qas": [qa()]}]}]}, "question 1"),
        ({"data": []}, "holds no question"),
        ([{"context": "a", "question": "b", "answer": "c"}], "record 1: .* hold the answer 'c'$"),
        ([{"context": " ", "question": "b", "answer": " "}], "has a passage without words"),
        ([{"context": "a", "question": "b"}], "record 1 has no list 'answers'"),
        ([3], "record 1 is a int"),
        ("", "holds no question"),
    ],
)
def test_broken(write, value, message):
    with pytest.raises(FormatError, match=message):
        read_squad(write(value))


def test_a_tokeniser_that_changes_words(write):
    with pytest.raises(FormatError, match="question 1: The word 'he' is not found"):
        read_squad(write(squad(qa(("He", 0)))), split=lambda text: text.lower().split())


def test_the_line_of_what_is_broken(write):
    """It is where the question begins, whatever stands before it."""
    good = {"qas": [qa(("He", 0))], "context": PASSAGE, "more": {"qas": [{}, "]}"]}}
    bad = {"context": PASSAGE, "qas": [qa(("He", 0)), {"question": "Who?", "answers": 3}]}
    text = json.dumps(
        {"x": [], "data": [{"paragraphs": []}, {"paragraphs": [good, bad]}]}, indent=1
    )
    line = text[: text.index('"Who?"')].count("\n")
    with pytest.raises(
        FormatError, match=rf"line {line}, article 2, paragraph 2, question 2 has no list 'answers'"
    ):
        read_squad(write(text))
    # Of two lists of one name the parser keeps the last.
    with pytest.raises(FormatError, match="line 3, article 1 has no list 'paragraphs'"):
        read_squad(write('{"data": [],\n "data":\n [3]}'))
