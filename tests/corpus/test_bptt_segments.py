"""Windows of training streams: the original's lanes, any number of processes, any position."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import StreamConfig
from elmo.corpus import bptt_streams as lane_accounts
from elmo.corpus.bptt_segments import SegmentLoader, read_once
from elmo.corpus.bptt_streams import (
    ContiguousStreams,
    QueuedStreams,
    SequentialOrder,
    ShuffledOrder,
)
from elmo.corpus.shards import CorpusShard, Split
from elmo.errors import ConfigError

SENTENCES = st.lists(st.lists(st.integers(0, 30), max_size=7), min_size=1, max_size=25)
FAST = settings(deadline=None, max_examples=60)


def split_of(sentences, n_shards=1):
    """Put sentences into shards of about equal size."""
    cuts = np.linspace(0, len(sentences), n_shards + 1).astype(int)
    parts = [Split.of(sentences[a:b]).shards[0] for a, b in itertools.pairwise(cuts)]
    return Split(tuple(CorpusShard(part.words.astype(np.uint16), part.starts) for part in parts))


def plain_lanes(sentences, lanes, steps, backward):
    """Give (inputs, targets) of each whole window, written from the description of bilm-tf."""
    marks = (1, 0) if backward else (0, 1)
    queue = (
        [marks[0], *[word + 2 for word in (s[::-1] if backward else s)], marks[1]]
        for s in sentences
    )
    current = [[] for _ in range(lanes)]
    while True:
        inputs, targets = np.zeros((2, steps, lanes), dtype=np.int64)
        for lane in range(lanes):
            filled = 0
            while filled < steps:
                if len(current[lane]) <= 1:
                    try:
                        current[lane] = next(queue)
                    except StopIteration:
                        return
                taken = min(len(current[lane]) - 1, steps - filled)
                place = slice(filled, filled + taken)
                inputs[place, lane] = current[lane][:taken]
                targets[place, lane] = current[lane][1 : taken + 1]
                current[lane] = current[lane][taken:]
                filled += taken
        yield inputs, targets


@FAST
@given(SENTENCES, st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_lanes_are_those_of_the_original(sentences, lanes, steps, n_shards):
    split = split_of(sentences, n_shards)
    windows = list(read_once(split, lanes=lanes, steps=steps, reset=False, drop_tail=True))
    for side in (0, 1):
        expected = list(plain_lanes(sentences, lanes, steps, side == 1))
        assert len(windows) == len(expected)
        for window, (inputs, targets) in zip(windows, expected, strict=True):
            assert np.array_equal(window.inputs[side], inputs)
            assert np.array_equal(window.targets[side], targets)
            assert window.real.all()


@FAST
@given(SENTENCES, st.integers(1, 5), st.integers(1, 9), st.sampled_from(["queue", "text"]))
def test_once_is_every_pair_once(sentences, lanes, steps, order):
    windows = list(
        read_once(split_of(sentences), lanes=lanes, steps=steps, reset=True, order=order)
    )
    for side in (0, 1):
        found = sorted(
            (int(window.inputs[side, step, lane]), int(window.targets[side, step, lane]))
            for window in windows
            for step, lane in np.argwhere(window.real)
        )
        rows = [[0, *[w + 2 for w in s], 1] for s in sentences]
        rows = [row[::-1] for row in rows] if side else rows
        assert found == sorted(pair for row in rows for pair in itertools.pairwise(row))
    n_resets = sum(int(window.resets[0].sum()) for window in windows)
    assert n_resets == len(sentences)


@pytest.mark.parametrize("order", ["queue", "text"])
def test_lanes_of_once_can_be_shared_out(order):
    sentences = [[word] * (word % 5) for word in range(23)]
    every = list(read_once(split_of(sentences), lanes=4, steps=3, reset=False, order=order))
    parts = [
        list(read_once(split_of(sentences), lanes=4, steps=3, reset=False, order=order, own=own))
        for own in (range(2), range(2, 4))
    ]
    for window, *halves in zip(every, *parts, strict=True):
        assert np.array_equal(window.targets, np.concatenate([h.targets for h in halves], axis=2))
        assert np.array_equal(window.real, np.concatenate([h.real for h in halves], axis=1))


CONFIGS = st.builds(
    StreamConfig,
    batch_size=st.integers(1, 4),
    unroll=st.integers(1, 6),
    order=st.just("shuffled"),
    directions=st.sampled_from(["together", "independent"]),
    reset=st.sampled_from([0.0, 0.5, 1.0]),
) | st.builds(StreamConfig, batch_size=st.just(1), unroll=st.integers(1, 6), order=st.just("text"))


def take(stream, count):
    return list(itertools.islice(stream, count))


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("inputs", "targets", "resets", "real")
    )


@FAST
@given(SENTENCES, CONFIGS, st.integers(0, 12), st.integers(0, 99))
def test_a_stream_goes_on_where_it_was(sentences, config, n_before, seed):
    split = split_of(sentences, 2)
    stream = SegmentLoader(split, config, seed=seed)
    position = take(stream, n_before)[-1].position if n_before else stream.position()
    expected = take(stream, 5)
    # A new one, and one that has looked ahead.
    for again in (SegmentLoader(split, config, seed=seed), stream):
        again.restore(position)
        for one, other in zip(expected, take(again, 5), strict=True):
            assert same(one, other)
            assert one.position == other.position


def test_a_position_is_plain_data_and_does_not_change_later():
    stream = SegmentLoader(split_of([[1, 2], [3]]), StreamConfig(batch_size=2, unroll=2), seed=1)
    first = next(iter(stream)).position
    copy = str(first)
    take(stream, 5)
    assert str(first) == copy


@FAST
@given(SENTENCES, CONFIGS)
def test_ranks_build_what_one_process_builds(sentences, config):
    split = split_of(sentences)
    whole = take(SegmentLoader(split, config, seed=3), 6)
    for lane in range(config.batch_size):
        own = take(SegmentLoader(split, config, seed=3, own=range(lane, lane + 1)), 6)
        for one, all_ in zip(own, whole, strict=True):
            assert np.array_equal(one.inputs[:, :, 0], all_.inputs[:, :, lane])
            assert np.array_equal(one.targets[:, :, 0], all_.targets[:, :, lane])
            assert np.array_equal(one.resets[:, :, 0], all_.resets[:, :, lane])
            assert one.position == all_.position


@FAST
@given(SENTENCES, st.integers(1, 3), st.integers(0, 99))
def test_an_epoch_draws_every_sentence_once(sentences, n_shards, seed):
    split = split_of(sentences, n_shards)
    order = ShuffledOrder(split, seed)
    n = split.n_sentences
    for epoch in range(3):
        drawn = []
        while len(drawn) < n:
            drawn += order.sentences(epoch * n + len(drawn), 4).tolist()
        assert sorted(drawn) == list(range(n))


def test_epochs_and_seeds_differ():
    split = split_of([[word] for word in range(50)])
    draws = {
        tuple(ShuffledOrder(split, seed).sentences(e * 50, 50)) for seed in (1, 2) for e in (0, 1)
    }
    assert len(draws) == 4


def test_directions_together_share_their_sentences():
    sentences = [[number] * 3 for number in range(40)]
    config = StreamConfig(batch_size=2, unroll=4)
    window = next(iter(SegmentLoader(split_of(sentences), config, seed=1)))
    assert np.array_equal(window.inputs[0][1:4], window.inputs[1][1:4])
    independent = StreamConfig(batch_size=2, unroll=4, directions="independent")
    window = next(iter(SegmentLoader(split_of(sentences), independent, seed=1)))
    assert not np.array_equal(window.inputs[0][1:4], window.inputs[1][1:4])


def test_in_text_order_a_lane_reads_its_own_part():
    sentences = [[number] for number in range(10)]
    windows = take(
        SegmentLoader(
            split_of(sentences), StreamConfig(batch_size=2, unroll=5, order="text"), seed=1
        ),
        3,
    )
    words = [
        [int(w) - 2 for x in windows for w in x.targets[0, :, lane] if w > 1] for lane in (0, 1)
    ]
    assert words == [[0, 1, 2, 3, 4, 0, 1, 2], [5, 6, 7, 8, 9, 5, 6, 7]]


@FAST
@given(SENTENCES, st.integers(1, 25))
def test_parts_are_never_empty(sentences, lanes):
    if lanes > len(sentences):
        with pytest.raises(ConfigError, match="batch_size"):
            ContiguousStreams(split_of(sentences), lanes, 3)
        return
    found = ContiguousStreams(split_of(sentences), lanes, 3)
    assert (found._size > 0).all()
    assert found._size.sum() == sum(len(s) + 1 for s in sentences)


def test_a_share_of_the_sentences_begins_anew():
    sentences = [[1]] * 2000
    config = StreamConfig(batch_size=4, unroll=10, reset=0.3)
    windows = take(SegmentLoader(split_of(sentences), config, seed=7), 100)
    resets = sum(int(window.resets[0].sum()) for window in windows)
    starts = sum(int((window.inputs[0] == 0).sum()) for window in windows)
    assert 0.25 < resets / starts < 0.35
    for window in windows:
        assert np.array_equal(window.resets[0], window.resets[1])
        assert not (window.resets[0] & (window.inputs[0] != 0)).any()


def test_nothing_to_read():
    empty = Split.of([])
    with pytest.raises(ConfigError, match="no sentence"):
        SegmentLoader(empty, StreamConfig(), seed=1)
    with pytest.raises(ConfigError, match="no sentence"):
        list(read_once(empty, lanes=1, steps=1, reset=False))


def test_a_queue_looks_draws_up_in_blocks(monkeypatch):
    monkeypatch.setattr(lane_accounts, "BLOCK", 3)
    sentences = [[n, n] for n in range(11)]
    pairs = QueuedStreams(SequentialOrder(split_of(sentences)), 2, 40).window(range(2))
    assert sorted(set(pairs.sentence.tolist())) == list(range(11))
