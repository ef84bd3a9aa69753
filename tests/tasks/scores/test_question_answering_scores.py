"""EM and F1 of answers, by hand and by what must always hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.scores.question_answering_scores import answer_scores, normalised


def one(gold, found, **options):
    scores = answer_scores([gold], [found], **options)
    return scores.exact_match, pytest.approx(scores.f1)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Cat, and a dog!", "cat and dog"),
        ("U.S.", "us"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),
        ("the", ""),
        ("the-end", "theend"),
        ("—“x”", "—“x”"),
    ],
)
def test_what_is_compared(answer, expected):
    """Punctuation goes before articles do, and only that of ASCII."""
    assert normalised(answer) == expected


def test_by_hand():
    assert one(["Denver Broncos"], "the Denver Broncos.") == (1, 1)
    assert one(["Denver Broncos"], "Broncos") == (0, 2 / 3)
    assert one(["Denver Broncos"], "Carolina") == (0, 0)
    # A word counts as often as both have it.
    assert one(["a b b c"], "b b b") == (0, 2 * 2 / (3 + 3))


def test_the_best_of_several_answers_counts():
    assert one(["Santa Clara", "in Santa Clara, California", "California"], "California") == (1, 1)
    assert one(["x y", "x y z w"], "x z") == (0, 2 * 2 / 6)


def test_no_answer():
    assert one([], "") == (1, 1)
    assert one([], "something") == (0, 0)
    assert one(["something"], "") == (0, 0)
    # What is left of it is nothing, which is no answer.
    assert one([], "the") == (1, 1)
    unanswered = answer_scores([["the"], ["a", "b"], []], ["", "", ""])
    # Of several answers those count that are some.
    assert (unanswered.exact_match, unanswered.f1) == (2 / 3, 2 / 3)


def test_where_every_question_has_an_answer_nothing_is_shared_with_nothing():
    """SQuAD 1.1's program counts all answers, and F1 by what they share."""
    assert one(["the"], "") == one(["the", "Kim"], "an") == (1, 0)
    assert one(["the", "Kim"], "Kim") == (1, 1)
    assert one(["Kim"], "the") == (0, 0)


def test_the_mean_is_over_questions():
    scores = answer_scores([["x"], ["x y"], []], ["x", "x", "z"])
    assert scores.exact_match == pytest.approx(1 / 3)
    assert scores.f1 == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert scores.n == 3


def test_characters():
    """KorQuAD: no articles, marks are spaces, F1 by characters."""
    assert one(["《바그너》"], "바그너", f1_unit="characters") == (1, 1)
    assert one(["바그너는"], "바그너", f1_unit="characters") == (0, 2 * 3 / (4 + 3))
    assert one(["바그너는"], "바그너") == (0, 0)
    assert one(["the 바"], "바", f1_unit="characters") == (0, 2 * 1 / (4 + 1))


def test_what_does_not_fit():
    with pytest.raises(InputError, match="questions: 1 in gold, 0 in the answers"):
        answer_scores([["a"]], [])
    with pytest.raises(InputError, match="no answer to score"):
        answer_scores([], [])


WORDS = st.lists(st.sampled_from(["the", "a", "B", "c.", "d", "-"]), max_size=5).map(" ".join)


@given(st.lists(WORDS, max_size=3), WORDS)
def test_what_always_holds(gold, found):
    scores = answer_scores([gold], [found])
    assert 0 <= scores.f1 <= 1
    assert scores.exact_match in (0, 1)
    if normalised(found) or not gold:
        assert scores.exact_match <= scores.f1
    # More right answers make no answer worse, where there was one.
    if any(map(normalised, gold)):
        assert answer_scores([[*gold, "b d"]], [found]).f1 >= scores.f1
    for answer in gold:
        if normalised(answer):
            assert answer_scores([gold], [f"The {answer}!"]).exact_match == 1
    # Which of two is right does not matter.
    if len(gold) == 1:
        assert answer_scores([[found]], gold).f1 == pytest.approx(scores.f1)
