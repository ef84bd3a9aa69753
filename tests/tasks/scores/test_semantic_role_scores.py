"""Spans of arguments without their predicates, and names of pronouns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.scores.label_scores import span_scores
from elmo.tasks.scores.pronoun_scores import pronoun_scores
from elmo.tasks.scores.semantic_role_scores import role_scores

M, F = "masculine", "feminine"


def test_the_predicate_is_not_counted():
    gold = [["B-ARG0", "B-V", "I-V", "B-ARG1", "I-ARG1"], ["B-V", "O"]]
    found = [["B-ARG0", "B-V", "O", "B-ARG1", "O"], ["B-V", "B-ARG1"]]
    scores = role_scores(gold, found, "IOB2")
    assert (scores.total.gold, scores.total.found, scores.total.right) == (2, 3, 1)
    assert set(scores.labels) == {"ARG0", "ARG1"}
    # With it more is right than was found.
    assert span_scores(gold, found, "IOB2").total.gold == 4


def test_continued_arguments_are_spans():
    gold = [["B-ARG1", "B-V", "B-C-ARG1", "B-C-V"]]
    assert set(role_scores(gold, gold, "IOB2").labels) == {"ARG1", "C-ARG1", "C-V"}


@given(st.lists(st.sampled_from(["O", "B-V", "I-V", "B-A", "I-A"]), min_size=1, max_size=8))
def test_what_is_right_is_right_with_any_predicate(tags):
    other = ["O" if tag.endswith("V") else tag for tag in tags]
    scores = role_scores([tags], [tags], "IOB2")
    assert scores.total.right == scores.total.gold == scores.total.found
    assert "V" not in scores.labels
    assert role_scores([other], [other], "IOB2").total.gold >= 0


# ---------------------------------------------------------------------------------------- pronouns


def test_pronouns_by_hand():
    """Masculine: 1 right, 1 missed, 1 wrong. Feminine: 2 right, nothing else."""
    gold = [(True, False), (False, True), (True, False), (False, True), (False, False)]
    found = [(True, False), (True, False), (True, False), (False, True), (False, False)]
    scores = pronoun_scores(gold, found, [M, M, F, F, M])
    assert scores.masculine == 2 * 1 / (2 + 2)
    assert scores.feminine == 1
    assert scores.f1 == 2 * 3 / (4 + 4)
    assert scores.bias == 2
    assert scores.n == 5


def test_pronouns_that_mean_nobody():
    scores = pronoun_scores([(False, False)], [(False, False)], [M])
    assert (scores.f1, scores.masculine, scores.feminine, scores.bias) == (0, 0, 0, 0)


def test_pronouns_that_do_not_fit():
    with pytest.raises(InputError, match="pronouns: 1 in gold, 0 in the answers, 1 genders"):
        pronoun_scores([(True, False)], [], [M])
    with pytest.raises(InputError, match="'neuter' is no gender"):
        pronoun_scores([(True, False)], [(True, False)], ["neuter"])


@given(st.lists(st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 2, st.sampled_from([M, F]))))
def test_pronouns_always(rows):
    gold, found, genders = ([row[n] for row in rows] for n in range(3))
    scores = pronoun_scores(gold, found, genders)
    assert 0 <= scores.f1 <= 1
    assert min(scores.masculine, scores.feminine) <= scores.f1 + 1e-12 or scores.f1 == 0
    turned = pronoun_scores(found, gold, genders)
    assert turned.f1 == pytest.approx(scores.f1)
    swapped = pronoun_scores(gold, found, [F if gender == M else M for gender in genders])
    assert (swapped.masculine, swapped.feminine) == (scores.feminine, scores.masculine)
