"""Tests of streams and segments of a training text."""

import numpy as np
import pytest

from elmo.config.language_models import SegmentConfig
from elmo.lab.text_streams import TextStreams

IDS = np.arange(103, dtype=np.int32)


def streams(batch_size=4, unroll=5, seed=1):
    return TextStreams(IDS, SegmentConfig(batch_size=batch_size, unroll=unroll), seed)


def test_targets_are_the_next_symbols():
    text = streams()
    for number in range(12):
        segment = text.segment(number)
        assert segment.inputs.shape == segment.targets.shape == (5, 4)
        np.testing.assert_array_equal(segment.targets, (segment.inputs + 1) % len(IDS))


def test_rows_continue_in_the_next_segment():
    text = streams()
    for number in range(4):
        last, following = text.segment(number).inputs[-1], text.segment(number + 1).inputs[0]
        np.testing.assert_array_equal(following, last + 1)


def test_rows_are_contiguous_parts():
    np.testing.assert_array_equal(streams().segment(0).inputs[0], [0, 25, 50, 75])


def test_only_the_first_segment_of_an_epoch_is_first():
    text = streams()
    assert text.segments_per_epoch == 5
    assert [text.segment(number).is_first for number in range(11)] == [
        number % 5 == 0 for number in range(11)
    ]


def test_epochs_begin_at_other_positions():
    text = streams()
    begins = {int(text.segment(5 * epoch).inputs[0, 0]) for epoch in range(8)}
    assert len(begins) > 4


def test_segment_depends_only_on_seed_and_number():
    np.testing.assert_array_equal(streams().segment(7).inputs, streams().segment(7).inputs)
    assert (streams(seed=2).segment(7).inputs != streams().segment(7).inputs).any()


def test_segments_are_not_longer_than_streams():
    text = streams(batch_size=40, unroll=64)
    assert text.unroll == text.stream_length == 2


@pytest.mark.parametrize("batch_size", [1, 51])
def test_extreme_batch_sizes_yield_segments(batch_size):
    assert streams(batch_size=batch_size).segment(3).inputs.shape[1] == batch_size
