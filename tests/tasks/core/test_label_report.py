"""Tests of the scores by label and the confusion matrix."""

import json

import pytest

from elmo.tasks.core.label_report import MAX_CONFUSIONS, MAX_WIDTH, label_report
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.tagging.span_scores import span_report, span_scores
from elmo.tasks.tagging.spans import IOB2


def report_of(gold, predicted):
    return label_report(gold, predicted, label_scores(gold, predicted).labels)


def columns(text):
    """Return the largest number of terminal columns of a line; Hangul syllables have two."""
    return max(len(line) + sum("가" <= c <= "힣" for c in line) for line in text.splitlines())


def test_report_on_worked_example():
    report = report_of(["a", "a", "b"], ["a", "b", "b"])
    assert str(report) == (
        "label  precision  recall      F1   support\n"
        "a         1.0000  0.5000  0.6667         2\n"
        "b         0.5000  1.0000  0.6667         1\n\n"
        "confusion matrix (rows: gold, columns: predicted)\n"
        "   a  b\n"
        "a  1  1\n"
        "b  0  1"
    )
    record = report.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["confusion_matrix"] == {"a": {"a": 1, "b": 1}, "b": {"b": 1}}
    assert record["labels"]["a"] == {
        **{"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)},
        **{"support": 2, "predicted": 1, "correct": 1},
    }


def test_confusion_matrix_agrees_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    gold, predicted = list("abcabcaab"), list("abbaccdab")
    matrix = report_of(gold, predicted).to_dict()["confusion_matrix"]
    names = list("abcd")
    expected = metrics.confusion_matrix(gold, predicted, labels=names).tolist()
    assert [[matrix.get(row, {}).get(name, 0) for name in names] for row in names] == expected


def test_numeric_labels_are_sorted_as_numbers():
    report = report_of(["10", "9", "2"], ["10", "9", "9"])
    assert list(report.to_dict()["labels"]) == ["2", "9", "10"]
    assert "   2  9  10\n" in str(report)


def test_medium_matrix_has_numbered_columns():
    names = [f"a long label {n:02}" for n in range(12)]
    text = str(report_of(names, names[1:] + names[:1]))
    assert columns(text) <= MAX_WIDTH
    assert " 1 a long label 00  0  1  0" in text


def test_matrix_wider_than_a_terminal_is_replaced_by_frequent_confusions():
    names = [f"라벨 {n:03} {'긴' * 40}" for n in range(60)]
    text = str(report_of(names + names[:2], names[1:] + names[:1] + names[1:3]))
    assert columns(text) <= MAX_WIDTH
    assert f"most frequent confusions, {MAX_CONFUSIONS} of 60" in text
    first = text.split("count\n")[1].splitlines()[0]
    assert first.endswith(" 2")
    assert first.startswith("라벨 000")


def test_span_report_compares_spans_with_equal_bounds():
    gold = [("B-PER", "I-PER", "O", "B-LOC"), ("B-LOC", "O", "O", "O")]
    predicted = [("B-PER", "I-PER", "O", "B-PER"), ("O", "O", "B-LOC", "O")]
    scores = span_scores(gold, predicted, IOB2).labels
    report = span_report(gold, predicted, IOB2, scores)
    assert report.to_dict()["confusion_matrix"] == {
        "LOC": {"PER": 1, "(none)": 1},
        "PER": {"PER": 1},
        "(none)": {"LOC": 1},
    }
    assert list(report.to_dict()["labels"]) == ["LOC", "PER"]
