"""Tests of the windows of long texts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.lab.units.sampled_text import (
    MAX_WINDOWS,
    WARM_UP,
    n_windows,
    reading_runs,
    sample_note,
    sample_sentences,
    sample_windows,
)


@given(st.integers(1, 10**7), st.integers(1, 50_000))
def test_windows_are_apart_and_reach_both_ends(n_positions, max_positions):
    windows = sample_windows(n_positions, max_positions)
    assert sum(map(len, windows)) == min(n_positions, max_positions)
    assert windows[0].start == 0
    ends = [window.stop for window in windows]
    assert all(window.start >= end for end, window in zip(ends, windows[1:], strict=False))
    assert ends[-1] <= n_positions
    if n_positions > max_positions:
        assert len(windows) == n_windows(max_positions)
        lengths = {len(window) for window in windows}
        assert max(lengths) - min(lengths) <= 1
        if len(windows) > 1:
            assert ends[-1] == n_positions
            gaps = [window.start - end for end, window in zip(ends, windows[1:], strict=False)]
            assert max(gaps) - min(gaps) <= 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(1, 3000))
def test_sampled_sentences_are_whole_and_within_the_limit(lengths, max_positions):
    ranges = sample_sentences(lengths, max_positions)
    chosen = [number for part in ranges for number in part]
    assert chosen == sorted(set(chosen))
    assert chosen
    n_chosen = sum(lengths[number] for number in chosen)
    assert n_chosen <= max_positions or chosen == [0]
    if sum(lengths) <= max_positions:
        assert len(chosen) == len(lengths)


def test_sentences_come_from_all_parts_of_the_text():
    ranges = sample_sentences([20] * 10_000, 10_000)
    # 500 of 10,000 sentences: each window has 50 of them, and 1,055.6 are between two windows.
    assert [part.start for part in ranges] == [math.ceil(1105.55 * k) for k in range(MAX_WINDOWS)]
    assert {len(part) for part in ranges} == {50}


def test_runs_begin_with_a_warm_up():
    far = (range(100), range(5000, 5100), range(9000, 9100))
    assert reading_runs(far) == [range(100), range(5000 - WARM_UP, 5100), range(8000, 9100)]
    assert reading_runs((range(10), range(500, 600))) == [range(600)]


@pytest.mark.parametrize(
    ("windows", "note"),
    [
        ((range(7),), ""),
        ((range(5),), "Read 5 of the 7 words of the text, from its beginning."),
        ((range(2), range(5, 7)), "Read 4 of the 7 words of the text, in 2 parts, evenly spaced."),
    ],
)
def test_note_states_what_was_read(windows, note):
    assert sample_note(windows, 7, "words") == note
