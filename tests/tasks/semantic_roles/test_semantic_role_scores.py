"""Tests for semantic role and pronoun scores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.coreference.pronoun_scores import pronoun_scores
from elmo.tasks.semantic_roles.semantic_role_scores import role_scores
from elmo.tasks.tagging.span_scores import span_scores

M, F = "masculine", "feminine"


def test_role_scores_ignore_predicate():
    gold = [["B-ARG0", "B-V", "I-V", "B-ARG1", "I-ARG1"], ["B-V", "O"]]
    predicted = [["B-ARG0", "B-V", "O", "B-ARG1", "O"], ["B-V", "B-ARG1"]]
    scores = role_scores(gold, predicted, "IOB2")
    assert (scores.total.gold, scores.total.predicted, scores.total.correct) == (2, 3, 1)
    assert set(scores.labels) == {"ARG0", "ARG1"}
    # Span scores count it.
    assert span_scores(gold, predicted, "IOB2").total.gold == 4


def test_role_scores_count_continued_arguments_as_separate_spans():
    gold = [["B-ARG1", "B-V", "B-C-ARG1", "B-C-V"]]
    assert set(role_scores(gold, gold, "IOB2").labels) == {"ARG1", "C-ARG1", "C-V"}


@given(st.lists(st.sampled_from(["O", "B-V", "I-V", "B-A", "I-A"]), min_size=1, max_size=8))
def test_role_scores_are_perfect_for_identical_tags(tags):
    other = ["O" if tag.endswith("V") else tag for tag in tags]
    scores = role_scores([tags], [tags], "IOB2")
    assert scores.total.correct == scores.total.gold == scores.total.predicted
    assert "V" not in scores.labels
    assert role_scores([other], [other], "IOB2").total.gold >= 0


# ---------------------------------------------------------------------------------------- pronouns


def test_pronoun_scores_on_worked_example():
    """Masculine: 1 correct, 1 missed, 1 wrong. Feminine: 2 correct, 0 missed or wrong."""
    gold = [(True, False), (False, True), (True, False), (False, True), (False, False)]
    predicted = [(True, False), (True, False), (True, False), (False, True), (False, False)]
    scores = pronoun_scores(gold, predicted, [M, M, F, F, M])
    assert scores.masculine == 2 * 1 / (2 + 2)
    assert scores.feminine == 1
    assert scores.f1 == 2 * 3 / (4 + 4)
    assert scores.bias == 2
    assert scores.n == 5


def test_pronoun_scores_are_zero_if_no_pronoun_refers_to_a_name():
    scores = pronoun_scores([(False, False)], [(False, False)], [M])
    assert (scores.f1, scores.masculine, scores.feminine, scores.bias) == (0, 0, 0, 0)


def test_pronoun_scores_rejects_invalid_input():
    with pytest.raises(
        InputError, match=r"number of pronouns differs: 1 in the gold data, 0 in .*, 1 genders"
    ):
        pronoun_scores([(True, False)], [], [M])
    with pytest.raises(InputError, match="Unknown gender 'neuter'"):
        pronoun_scores([(True, False)], [(True, False)], ["neuter"])


@given(st.lists(st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 2, st.sampled_from([M, F]))))
def test_pronoun_scores_are_symmetric_in_gold_and_predicted(rows):
    gold, predicted, genders = ([row[n] for row in rows] for n in range(3))
    scores = pronoun_scores(gold, predicted, genders)
    assert 0 <= scores.f1 <= 1
    assert min(scores.masculine, scores.feminine) <= scores.f1 + 1e-12 or scores.f1 == 0
    exchanged = pronoun_scores(predicted, gold, genders)
    assert exchanged.f1 == pytest.approx(scores.f1)
    swapped = pronoun_scores(gold, predicted, [F if gender == M else M for gender in genders])
    assert (swapped.masculine, swapped.feminine) == (scores.feminine, scores.masculine)
