"""Tests for label and span scores against worked examples, scikit-learn and seqeval."""

import math
import warnings
from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.core.label_scores import Score, label_scores, mean_and_deviation
from elmo.tasks.tagging.span_scores import span_scores
from elmo.tasks.tagging.spans import BIOES, IOB2

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


def test_label_scores_on_worked_example():
    scores = label_scores(["a", "a", "a", "b", "b", "c"], ["a", "a", "b", "b", "d", "a"])
    assert scores.accuracy == 3 / 6
    assert scores.n == 6
    assert scores.labels["a"] == Score(2 / 3, 2 / 3, 2 / 3, gold=3, predicted=3, correct=2)
    assert scores.labels["b"] == Score(1 / 2, 1 / 2, 1 / 2, gold=2, predicted=2, correct=1)
    assert scores.labels["c"] == Score(0.0, 0.0, 0.0, gold=1, predicted=0, correct=0)
    assert scores.labels["d"] == Score(0.0, 0.0, 0.0, gold=0, predicted=1, correct=0)
    assert list(scores.labels) == ["a", "b", "c", "d"]
    # d is not in the gold labels and does not count.
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


@settings(max_examples=60)
@given(st.data())
def test_label_scores_agree_with_scikit_learn(scikit_learn, data):
    metrics = scikit_learn
    n = data.draw(st.integers(1, 20))
    gold, predicted = (
        data.draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n)) for _ in "12"
    )
    scores = label_scores(gold, predicted)
    gold_labels = sorted(set(gold))
    macro = metrics.f1_score(gold, predicted, labels=gold_labels, average="macro", zero_division=0)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(gold, predicted))
    assert scores.macro_f1 == pytest.approx(macro)
    expected = metrics.precision_recall_fscore_support(
        gold, predicted, labels=gold_labels, zero_division=0
    )
    for index, label in enumerate(gold_labels):
        assert astuple(scores.labels[label])[:4] == pytest.approx([row[index] for row in expected])


def test_label_scores_rejects_invalid_input():
    with pytest.raises(
        InputError, match="number of labels differs: 2 in the gold data, 1 in the predictions"
    ):
        label_scores(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no labels"):
        label_scores([], [])


# ------------------------------------------------------------------------------------ spans


def test_span_scores_on_worked_example():
    """Gold: PER 0-2, LOC 3-4 | PER 0-1; predicted: PER 0-2, ORG 3-4 | PER 0-2 | LOC 1-2."""
    gold = ["B-PER I-PER O B-LOC".split(), "B-PER O O".split(), "O O".split()]
    predicted = ["B-PER I-PER O B-ORG".split(), "B-PER I-PER O".split(), "O I-LOC".split()]
    scores = span_scores(gold, predicted, IOB2)
    assert scores.total == Score(1 / 4, 1 / 3, 2 / 7, gold=3, predicted=4, correct=1)
    assert (scores.total.precision, scores.total.recall, scores.total.f1) == (1 / 4, 1 / 3, 2 / 7)
    assert scores.accuracy == 6 / 9
    assert scores.n == 9
    assert scores.labels == {
        "LOC": Score(0.0, 0.0, 0.0, gold=1, predicted=1, correct=0),
        "ORG": Score(0.0, 0.0, 0.0, gold=0, predicted=1, correct=0),
        "PER": Score(1 / 2, 1 / 2, 1 / 2, gold=2, predicted=2, correct=1),
    }


def test_span_scores_end_spans_at_sentence_boundaries():
    """An I- tag at the beginning of a sentence begins a span, as in conlleval."""
    scores = span_scores([["B-X"], ["I-X"]], [["B-X"], ["I-X"]], IOB2)
    assert (scores.total.gold, scores.total.f1) == (2, 1.0)


def test_span_scores_are_zero_without_spans():
    scores = span_scores([["O", "O"]], [["O", "O"]], IOB2)
    assert (scores.total.precision, scores.total.recall, scores.total.f1, scores.accuracy) == (
        0.0,
        0.0,
        0.0,
        1.0,
    )
    assert scores.labels == {}


@settings(max_examples=60)
@given(st.data(), st.sampled_from([IOB2, BIOES]))
def test_span_scores_agree_with_seqeval(seqeval, data, scheme):
    """The random tags include ill-formed sequences."""
    metrics = seqeval
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    gold, predicted = (
        [
            data.draw(st.lists(st.sampled_from(TAGS[scheme]), min_size=n, max_size=n))
            for n in lengths
        ]
        for _ in "12"
    )
    scores = span_scores(gold, predicted, scheme)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            metric(gold, predicted, zero_division=0)
            for metric in (metrics.precision_score, metrics.recall_score, metrics.f1_score)
        ]
        by_label = (
            metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
            if scores.labels
            else {}
        )
    assert [scores.total.precision, scores.total.recall, scores.total.f1] == pytest.approx(expected)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(gold, predicted))
    for label, score in scores.labels.items():
        row = by_label[label]
        assert list(astuple(score)[:4]) == pytest.approx(
            [row["precision"], row["recall"], row["f1-score"], row["support"]]
        )


def test_span_scores_rejects_invalid_input():
    with pytest.raises(InputError, match="number of sentences differs: 1 in the gold data, 0 in"):
        span_scores([["O"]], [], IOB2)
    with pytest.raises(InputError, match="number of tags in sentence 2 differs: 2 in the gold"):
        span_scores([["O"], ["O", "O"]], [["O"], ["O"]], IOB2)
    with pytest.raises(InputError, match="no tags"):
        span_scores([[]], [[]], IOB2)


# ------------------------------------------------------------------------------------ seeds


def test_mean_and_deviation_on_worked_examples():
    spread = mean_and_deviation(value / 10 for value in (2, 4, 4, 4, 5, 5, 7, 9))
    assert spread.mean == pytest.approx(0.5)
    assert spread.deviation == pytest.approx(math.sqrt(32 / 7) / 10)
    assert spread.n == 8
    assert mean_and_deviation([0.3]) == mean_and_deviation([0.3])
    assert (mean_and_deviation([0.3]).mean, mean_and_deviation([0.3]).deviation) == (0.3, 0.0)
    with pytest.raises(InputError, match="no values"):
        mean_and_deviation([])
