"""Tests for writing shards and selecting held-out sentences."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.corpus.shards import _open_shard
from elmo.corpus.split_writer import RANGE_SENTENCES, SplitWriter, held_out_ranges, is_held_out


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 5), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    shard_words=st.integers(1, 20),
)
def test_shards_do_not_depend_on_sentences_per_add_call(
    tmp_path_factory, lengths, cuts, shard_words
):
    folder = tmp_path_factory.mktemp("corpus")
    lengths = np.array(lengths, dtype=np.uint32)
    words = np.arange(lengths.sum(), dtype=np.uint32) % 7
    known = np.array([True] * 5 + [False] * 2)
    bounds = [0, *sorted(min(cut, len(lengths)) for cut in cuts), len(lengths)]
    with SplitWriter(folder, "train", known, shard_words) as writer:
        for first, last in pairwise(bounds):
            before = lengths[:first].sum()
            writer.add(
                words[before : before + lengths[first:last].sum()], lengths[first:last], last
            )
    shards = [_open_shard(folder, "train", number) for number in range(writer.n_shards)]
    assert sum(shard.n_sentences for shard in shards) == writer.n_sentences == len(lengths)
    assert [n for shard in shards for n in np.diff(shard.starts)] == lengths.tolist()
    assert [n for shard in shards for n in shard.words.tolist()] == words.tolist()
    assert writer.n_unknown == (words >= 5).sum()
    for shard in shards[:-1]:
        # The shard is full, and was not full before its last sentence.
        assert len(shard.words) >= shard_words
        assert shard.starts[-2] < shard_words


@pytest.mark.parametrize(
    ("n_sentences", "fraction", "expected"),
    [
        (0, 0.5, []),
        (1, 0.5, []),
        (1000, 0.0, []),
        (2, 0.01, [(1, 2)]),
        (2, 0.99, [(1, 2)]),
        (150, 0.1, [(135, 150)]),
        (199, 0.001, [(198, 199)]),
        (200, 0.01, [(198, 200)]),
        (1000, 0.01, [(990, 1000)]),
        (1000, 0.1, [(500, 600)]),
        (10_050, 0.02, [(2500, 2600), (7500, 7600)]),
        (250, 0.99, [(100, 200)]),
    ],
)
def test_held_out_ranges_are_spread_evenly_or_at_the_end(n_sentences, fraction, expected):
    ranges = held_out_ranges(n_sentences, fraction)
    assert ranges.tolist() == [list(pair) for pair in expected]


@given(n_sentences=st.integers(0, 20_000), fraction=st.floats(0, 0.99))
def test_held_out_ranges_are_disjoint_and_within_text(n_sentences, fraction):
    ranges = held_out_ranges(n_sentences, fraction)
    bounds = ranges.reshape(-1)
    assert (np.diff(bounds) >= 0).all()
    assert (ranges[:, 0] < ranges[:, 1]).all()
    assert (bounds <= n_sentences).all()
    held = is_held_out(ranges, 0, n_sentences)
    assert held.sum() == (ranges[:, 1] - ranges[:, 0]).sum()
    assert held.sum() < max(1, n_sentences)
    if n_sentences >= 2 * RANGE_SENTENCES and fraction > 0:
        assert abs(held.sum() - fraction * n_sentences) <= 2 * RANGE_SENTENCES
    parts = [
        is_held_out(ranges, first, min(77, n_sentences - first))
        for first in range(0, n_sentences, 77)
    ]
    assert np.array_equal(np.concatenate([[], *parts]), held)
