"""Tests for the maximum-weight assignment."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.tasks.coreference.assignment import best_pairs


def total_value(values, pairs):
    return sum(values[pair] for pair in pairs)


def test_best_pairs_maximizes_the_sum_unlike_greedy_matching():
    """The largest value, 9, is not in the best assignment: 9 + 1 < 8 + 7."""
    values = np.array([[9.0, 8.0], [7.0, 1.0]])
    assert best_pairs(values) == [(0, 1), (1, 0)]
    assert best_pairs(np.zeros((0, 3))) == best_pairs(np.zeros((3, 0))) == []


@settings(max_examples=150)
@given(st.data())
def test_best_pairs_matches_best_permutation_by_brute_force(data):
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    cells = st.integers(-4, 4)
    rows = data.draw(
        st.lists(
            st.lists(cells, min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        )
    )
    values = np.array(rows, dtype=float)
    pairs = best_pairs(values)
    short, long = sorted(shape)
    assert len(pairs) == short
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == short
    wide = values if shape[0] <= shape[1] else values.T
    best = max(
        sum(wide[row, column] for row, column in enumerate(columns))
        for columns in permutations(range(long), short)
    )
    assert total_value(values, pairs) == pytest.approx(best)


def test_best_pairs_agrees_with_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    generator = np.random.default_rng(0)
    for shape in ((40, 40), (12, 60), (60, 12)):
        values = generator.random(shape)
        rows, columns = optimize.linear_sum_assignment(values, maximize=True)
        assert total_value(values, best_pairs(values)) == pytest.approx(values[rows, columns].sum())
