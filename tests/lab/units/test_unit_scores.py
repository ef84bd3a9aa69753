"""Tests of the scores of units, against slow references."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from elmo.lab.units.unit_scores import (
    N_BINS,
    auc,
    centered_ranks,
    correlation,
    label_bins,
    mutual_information,
)

N = 40
VALUES = arrays(np.float32, (N, 3), elements=st.integers(-3, 3).map(float))
LABELS = arrays(bool, N).filter(lambda labels: 0 < labels.sum() < N)


def slow_auc(values, labels):
    """Count the pairs of a true and a false position in which the true one has a larger value."""
    pairs = list(product(values[labels], values[~labels]))
    return sum((x > y) + 0.5 * (x == y) for x, y in pairs) / len(pairs)


def slow_information(xs, ys):
    """Sum over all pairs of classes."""
    n = len(xs)
    joint, left, right = Counter(zip(xs, ys, strict=True)), Counter(xs), Counter(ys)
    return sum(
        count / n * math.log2(count * n / (left[x] * right[y])) for (x, y), count in joint.items()
    )


@given(VALUES, LABELS)
def test_auc_is_share_of_ordered_pairs(values, labels):
    expected = [slow_auc(column, labels) for column in values.T]
    np.testing.assert_allclose(auc(centered_ranks(values), labels), expected, atol=1e-5)


@given(VALUES, LABELS)
def test_auc_of_negated_unit_is_complement(values, labels):
    ranks = centered_ranks(values)
    np.testing.assert_allclose(auc(-ranks, labels), 1 - auc(ranks, labels), atol=1e-5)


@given(VALUES, LABELS)
def test_correlation_is_that_of_numpy(values, labels):
    result = correlation(values, labels)
    for column, value in zip(values.T, result, strict=True):
        if np.ptp(column):
            assert value == pytest.approx(np.corrcoef(column, labels)[0, 1], abs=1e-4)
        else:
            assert value == 0.0


def test_several_label_sets_have_scores_of_each():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, 4)).astype(np.float32)
    labels = rng.random((3, 50)) < 0.3
    ranks = centered_ranks(values)
    for function, data in ((auc, ranks), (correlation, values)):
        expected = [function(data, row) for row in labels]
        np.testing.assert_allclose(function(data, labels), expected, atol=1e-6)


@given(st.integers(2, 30), st.integers(0, 5))
def test_mutual_information_is_sum_over_bins(n_classes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=200).astype(np.float32)
    values = (labels[:, None] * [0.0, 1.0] + rng.normal(size=(200, 2))).astype(np.float32)
    ranks = centered_ranks(values)
    bins = np.floor((ranks + 0.5) * N_BINS).astype(int)
    expected = [slow_information(column, label_bins(labels)) for column in bins.T]
    result = mutual_information(ranks, labels)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    assert len(np.unique(label_bins(labels))) <= N_BINS


def test_mutual_information_of_equal_parts_is_one_bit():
    values = np.arange(64, dtype=np.float32)[:, None]
    ranks = centered_ranks(values)
    assert mutual_information(ranks, values[:, 0] >= 32)[0] == pytest.approx(1.0)


def test_auc_without_both_labels_is_nan():
    assert np.isnan(auc(centered_ranks(np.zeros((3, 1), np.float32)), np.zeros(3, bool))).all()
