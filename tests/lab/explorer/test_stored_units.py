"""Tests of the choice of units and of their values as int8."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from elmo.errors import InputError
from elmo.lab.explorer.stored_units import BYTES_PER_VALUE, choose_units, store_track
from elmo.lab.units.traces import Track, UnitTraces

HIDDEN = Track(0, "forward", "hidden")
CELL = Track(0, "forward", "cell")
TOP = Track(1, "forward", "hidden")


def traces(widths, n=20):
    """Return traces in which the variance of hidden states grows with the unit."""
    generator = np.random.default_rng(1)
    values = {}
    for track, width in widths.items():
        noise = generator.normal(size=(n, width))
        order = np.arange(width) if track.kind == "hidden" else np.arange(width)[::-1]
        values[track] = (noise / noise.std(axis=0) * (1 + order)).astype(np.float32)
    return UnitTraces(tuple("x" * n), "characters", values)


def test_choose_units_without_limit_keeps_all():
    chosen = choose_units(traces({HIDDEN: 5, TOP: 3}), None)
    assert {track: units.tolist() for track, units in chosen.items()} == {
        HIDDEN: [0, 1, 2, 3, 4],
        TOP: [0, 1, 2],
    }


def test_choose_units_takes_those_with_largest_variance_of_the_first_kind():
    chosen = choose_units(traces({HIDDEN: 10, CELL: 10}), 2 * 3 * 20 * BYTES_PER_VALUE)
    assert chosen[HIDDEN].tolist() == chosen[CELL].tolist() == [7, 8, 9]


def test_choose_units_chooses_projected_states_on_their_own():
    chosen = choose_units(traces({HIDDEN: 4, CELL: 10}), 2 * 2 * 20 * BYTES_PER_VALUE)
    assert chosen[HIDDEN].tolist() == [2, 3]
    assert chosen[CELL].tolist() == [0, 1]


@given(widths=st.lists(st.integers(1, 40), min_size=1, max_size=4), room=st.integers(0, 150))
@settings(max_examples=50)
def test_choose_units_fits_into_the_limit_and_uses_it(widths, room):
    tracks = {Track(layer, "forward", "hidden"): width for layer, width in enumerate(widths)}
    chosen = choose_units(traces(tracks, n=3), (room + 0.5) * 3 * BYTES_PER_VALUE)
    total = sum(len(units) for units in chosen.values())
    assert all(len(units) >= 1 for units in chosen.values())
    assert total <= max(room, len(widths))
    # At most one unit per track is lost to rounding, unless all units are stored.
    assert total == sum(widths) or total > room - len(widths)


def test_choose_units_adds_required_units_where_they_exist():
    chosen = choose_units(traces({HIDDEN: 4, CELL: 10}), 1.0, required=(0, 8))
    assert chosen[HIDDEN].tolist() == [0, 3]
    assert chosen[CELL].tolist() == [0, 8]


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 20), st.integers(1, 5)),
        elements=st.floats(-50, 50, width=32),
    )
)
def test_store_track_keeps_values_within_half_a_step(values):
    units = np.arange(values.shape[1], dtype=np.int32)
    stored = store_track(values, units)
    restored = stored.values * stored.scale[:, None] / 127
    error = np.abs(restored - values.T)
    assert (error <= stored.scale[:, None] / 253 + 1e-6).all()
    assert (stored.color_limit <= stored.scale + 1e-6).all()
    assert np.isfinite(stored.slowness).all()


def test_store_track_measures_mean_spread_and_slowness():
    slow = np.repeat([1.0, -1.0], 50)
    fast = np.tile([1.0, 0.0], 50)
    values = np.stack([slow, fast, np.full(100, 3.0)], axis=1).astype(np.float32)
    stored = store_track(values, np.arange(3, dtype=np.int32))
    np.testing.assert_allclose(stored.mean, [0, 0.5, 3], atol=1e-6)
    np.testing.assert_allclose(stored.spread, [1, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(stored.slowness, [0.97, -0.99, 0], atol=1e-6)


def test_store_track_rejects_values_that_are_not_finite():
    with pytest.raises(InputError, match="infinite or NaN"):
        store_track(np.full((2, 1), np.nan, dtype=np.float32), np.zeros(1, dtype=np.int32))
