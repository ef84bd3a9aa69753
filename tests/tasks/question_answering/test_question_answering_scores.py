"""Tests for exact match and F1 of answers: worked examples and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.question_answering.question_answering_scores import answer_scores, normalize_answer


def score(gold, predicted, **options):
    scores = answer_scores([gold], [predicted], **options)
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
def test_normalize_answer_removes_case_punctuation_and_articles(answer, expected):
    """ASCII punctuation is removed first, then articles."""
    assert normalize_answer(answer) == expected


def test_answer_scores_on_worked_examples():
    assert score(["Denver Broncos"], "the Denver Broncos.") == (1, 1)
    assert score(["Denver Broncos"], "Broncos") == (0, 2 / 3)
    assert score(["Denver Broncos"], "Carolina") == (0, 0)
    # A repeated word counts as often as it is in both answers.
    assert score(["a b b c"], "b b b") == (0, 2 * 2 / (3 + 3))


def test_answer_scores_use_best_matching_gold_answer():
    assert score(["Santa Clara", "in Santa Clara, California", "California"], "California") == (
        1,
        1,
    )
    assert score(["x y", "x y z w"], "x z") == (0, 2 * 2 / 6)


def test_only_empty_answer_is_correct_for_unanswerable_question():
    assert score([], "") == (1, 1)
    assert score([], "something") == (0, 0)
    assert score(["something"], "") == (0, 0)
    # Nothing is left after normalization, so it counts as no answer.
    assert score([], "the") == (1, 1)
    unanswered = answer_scores([["the"], ["a", "b"], []], ["", "", ""])
    # Gold answers that are empty after normalization are ignored.
    assert (unanswered.exact_match, unanswered.f1) == (2 / 3, 2 / 3)


def test_empty_normalized_answers_match_exactly_under_squad_1_1_rules():
    """In SQuAD 1.1, answers that are empty after normalization match exactly, but their F1 is 0."""
    assert score(["the"], "") == score(["the", "Kim"], "an") == (1, 0)
    assert score(["the", "Kim"], "Kim") == (1, 1)
    assert score(["Kim"], "the") == (0, 0)


def test_answer_scores_are_averaged_over_questions():
    scores = answer_scores([["x"], ["x y"], []], ["x", "x", "z"])
    assert scores.exact_match == pytest.approx(1 / 3)
    assert scores.f1 == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert scores.n == 3


def test_answer_scores_count_characters_under_korquad_rules():
    """KorQuAD leaves articles, replaces quotes and brackets with spaces, and counts characters."""
    assert score(["《바그너》"], "바그너", f1_unit="characters") == (1, 1)
    assert score(["바그너는"], "바그너", f1_unit="characters") == (0, 2 * 3 / (4 + 3))
    assert score(["바그너는"], "바그너") == (0, 0)
    assert score(["the 바"], "바", f1_unit="characters") == (0, 2 * 1 / (4 + 1))


def test_answer_scores_rejects_invalid_input():
    with pytest.raises(
        InputError, match="number of questions differs: 1 in the gold data, 0 in the predictions"
    ):
        answer_scores([["a"]], [])
    with pytest.raises(InputError, match="no answers to score"):
        answer_scores([], [])


WORDS = st.lists(st.sampled_from(["the", "a", "B", "c.", "d", "-"]), max_size=5).map(" ".join)


@given(st.lists(WORDS, max_size=3), WORDS)
def test_answer_scores_are_bounded_symmetric_and_monotonic(gold, predicted):
    scores = answer_scores([gold], [predicted])
    assert 0 <= scores.f1 <= 1
    assert scores.exact_match in (0, 1)
    if normalize_answer(predicted) or not gold:
        assert scores.exact_match <= scores.f1
    # Additional gold answers never lower the score of an answerable question.
    if any(map(normalize_answer, gold)):
        assert answer_scores([[*gold, "b d"]], [predicted]).f1 >= scores.f1
    for answer in gold:
        if normalize_answer(answer):
            assert answer_scores([gold], [f"The {answer}!"]).exact_match == 1
    # F1 is symmetric.
    if len(gold) == 1:
        assert answer_scores([[predicted]], gold).f1 == pytest.approx(scores.f1)
