"""Scores against hand-worked figures and seqeval's."""

import math
import warnings
from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.scores.label_scores import Score, label_scores, mean_and_deviation, span_scores
from elmo.tasks.spans import BIOES, IOB2

TAGS = {
    IOB2: ["O", "B-X", "I-X", "B-Y", "I-Y"],
    BIOES: ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"],
}


@pytest.fixture(scope="module")
def scikit_learn():
    return pytest.importorskip("sklearn.metrics")


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip("seqeval.metrics")


# ------------------------------------------------------------------------------------ labels


def test_labels_by_hand():
    found = label_scores(["a", "a", "a", "b", "b", "c"], ["a", "a", "b", "b", "d", "a"])
    assert found.accuracy == 3 / 6
    assert found.n == 6
    assert found.labels["a"] == Score(2 / 3, 2 / 3, 2 / 3, gold=3, found=3, right=2)
    assert found.labels["b"] == Score(1 / 2, 1 / 2, 1 / 2, gold=2, found=2, right=1)
    assert found.labels["c"] == Score(0.0, 0.0, 0.0, gold=1, found=0, right=0)
    assert found.labels["d"] == Score(0.0, 0.0, 0.0, gold=0, found=1, right=0)
    assert list(found.labels) == ["a", "b", "c", "d"]
    # d is not in gold and does not count.
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


@settings(deadline=None)
@given(st.data())
def test_labels_against_scikit_learn(scikit_learn, data):
    metrics = scikit_learn
    n = data.draw(st.integers(1, 20))
    gold, answers = (
        data.draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n)) for _ in "12"
    )
    found = label_scores(gold, answers)
    seen = sorted(set(gold))
    macro = metrics.f1_score(gold, answers, labels=seen, average="macro", zero_division=0)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(gold, answers))
    assert found.macro_f1 == pytest.approx(macro)
    expected = metrics.precision_recall_fscore_support(gold, answers, labels=seen, zero_division=0)
    for place, label in enumerate(seen):
        assert astuple(found.labels[label])[:4] == pytest.approx([row[place] for row in expected])


def test_labels_that_do_not_fit():
    with pytest.raises(InputError, match="labels: 2 in gold, 1 in the answers"):
        label_scores(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no label"):
        label_scores([], [])


# ------------------------------------------------------------------------------------ spans


def test_spans_by_hand():
    """Gold has PER 0-2, LOC 3-4 | PER 0-1; found PER 0-2, ORG 3-4 | PER 0-2 | and LOC 1-2."""
    gold = ["B-PER I-PER O B-LOC".split(), "B-PER O O".split(), "O O".split()]
    found = ["B-PER I-PER O B-ORG".split(), "B-PER I-PER O".split(), "O I-LOC".split()]
    scores = span_scores(gold, found, IOB2)
    assert scores.total == Score(1 / 4, 1 / 3, 2 / 7, gold=3, found=4, right=1)
    assert (scores.precision, scores.recall, scores.f1) == (1 / 4, 1 / 3, 2 / 7)
    assert scores.accuracy == 6 / 9
    assert scores.n == 9
    assert scores.labels == {
        "LOC": Score(0.0, 0.0, 0.0, gold=1, found=1, right=0),
        "ORG": Score(0.0, 0.0, 0.0, gold=0, found=1, right=0),
        "PER": Score(1 / 2, 1 / 2, 1 / 2, gold=2, found=2, right=1),
    }


def test_spans_do_not_cross_sentences():
    """Two sentences are two spans, as the blank line between them tells conlleval."""
    scores = span_scores([["B-X"], ["I-X"]], [["B-X"], ["I-X"]], IOB2)
    assert (scores.total.gold, scores.f1) == (2, 1.0)


def test_no_spans_at_all():
    scores = span_scores([["O", "O"]], [["O", "O"]], IOB2)
    assert (scores.precision, scores.recall, scores.f1, scores.accuracy) == (0.0, 0.0, 0.0, 1.0)
    assert scores.labels == {}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([IOB2, BIOES]))
def test_against_seqeval(seqeval, data, scheme):
    """Ill-formed answers included."""
    metrics = seqeval
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    gold, answers = (
        [
            data.draw(st.lists(st.sampled_from(TAGS[scheme]), min_size=n, max_size=n))
            for n in lengths
        ]
        for _ in "12"
    )
    scores = span_scores(gold, answers, scheme)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            metric(gold, answers, zero_division=0)
            for metric in (metrics.precision_score, metrics.recall_score, metrics.f1_score)
        ]
        each = (
            metrics.classification_report(gold, answers, output_dict=True, zero_division=0)
            if scores.labels
            else {}
        )
    assert [scores.precision, scores.recall, scores.f1] == pytest.approx(expected)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(gold, answers))
    for label, score in scores.labels.items():
        row = each[label]
        assert list(astuple(score)[:4]) == pytest.approx(
            [row["precision"], row["recall"], row["f1-score"], row["support"]]
        )


def test_spans_that_do_not_fit():
    with pytest.raises(InputError, match="sentences: 1 in gold, 0 in the answers"):
        span_scores([["O"]], [], IOB2)
    with pytest.raises(InputError, match="tags in sentence 2: 2 in gold, 1 in the answers"):
        span_scores([["O"], ["O", "O"]], [["O"], ["O"]], IOB2)
    with pytest.raises(InputError, match="no tag"):
        span_scores([[]], [[]], IOB2)


# ------------------------------------------------------------------------------------ seeds


def test_mean_and_deviation():
    spread = mean_and_deviation(value / 10 for value in (2, 4, 4, 4, 5, 5, 7, 9))
    assert spread.mean == pytest.approx(0.5)
    assert spread.deviation == pytest.approx(math.sqrt(32 / 7) / 10)
    assert spread.n == 8
    assert mean_and_deviation([0.3]) == mean_and_deviation([0.3])
    assert (mean_and_deviation([0.3]).mean, mean_and_deviation([0.3]).deviation) == (0.3, 0.0)
    with pytest.raises(InputError, match="no value"):
        mean_and_deviation([])
