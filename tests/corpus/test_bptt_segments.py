"""Tests for BPTT segments: equality with bilm-tf, several processes, and saved positions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import StreamConfig
from elmo.corpus import bptt_streams
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
FAST = settings(max_examples=60)


def split_of(sentences, n_shards=1):
    """Return a split with the sentences in shards of about equal size."""
    cuts = np.linspace(0, len(sentences), n_shards + 1).astype(int)
    parts = [Split.of(sentences[a:b]).shards[0] for a, b in itertools.pairwise(cuts)]
    return Split(tuple(CorpusShard(part.words.astype(np.uint16), part.starts) for part in parts))


def bilm_tf_segments(sentences, n_streams, n_steps, backward):
    """Yield (inputs, targets) of each complete segment, batched as in bilm-tf."""
    boundaries = (1, 0) if backward else (0, 1)
    queue = (
        [boundaries[0], *[word + 2 for word in (s[::-1] if backward else s)], boundaries[1]]
        for s in sentences
    )
    current = [[] for _ in range(n_streams)]
    while True:
        inputs, targets = np.zeros((2, n_steps, n_streams), dtype=np.int64)
        for stream in range(n_streams):
            filled = 0
            while filled < n_steps:
                if len(current[stream]) <= 1:
                    try:
                        current[stream] = next(queue)
                    except StopIteration:
                        return
                taken = min(len(current[stream]) - 1, n_steps - filled)
                steps = slice(filled, filled + taken)
                inputs[steps, stream] = current[stream][:taken]
                targets[steps, stream] = current[stream][1 : taken + 1]
                current[stream] = current[stream][taken:]
                filled += taken
        yield inputs, targets


@FAST
@given(SENTENCES, st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_read_once_yields_same_segments_as_bilm_tf(sentences, n_streams, n_steps, n_shards):
    split = split_of(sentences, n_shards)
    segments = list(
        read_once(split, n_streams=n_streams, n_steps=n_steps, reset=False, drop_tail=True)
    )
    for direction in (0, 1):
        expected = list(bilm_tf_segments(sentences, n_streams, n_steps, direction == 1))
        assert len(segments) == len(expected)
        for segment, (inputs, targets) in zip(segments, expected, strict=True):
            assert np.array_equal(segment.inputs[direction], inputs)
            assert np.array_equal(segment.targets[direction], targets)
            assert segment.real.all()


@FAST
@given(SENTENCES, st.integers(1, 5), st.integers(1, 9), st.sampled_from(["queue", "text"]))
def test_read_once_yields_every_prediction_pair_once(sentences, n_streams, n_steps, order):
    split = split_of(sentences)
    segments = list(read_once(split, n_streams=n_streams, n_steps=n_steps, reset=True, order=order))
    for direction in (0, 1):
        pairs = sorted(
            (
                int(segment.inputs[direction, step, stream]),
                int(segment.targets[direction, step, stream]),
            )
            for segment in segments
            for step, stream in np.argwhere(segment.real)
        )
        rows = [[0, *[w + 2 for w in s], 1] for s in sentences]
        rows = [row[::-1] for row in rows] if direction else rows
        assert pairs == sorted(pair for row in rows for pair in itertools.pairwise(row))
    n_resets = sum(int(segment.resets[0].sum()) for segment in segments)
    assert n_resets == len(sentences)


@pytest.mark.parametrize("order", ["queue", "text"])
def test_read_once_can_divide_streams_among_processes(order):
    split = split_of([[word] * (word % 5) for word in range(23)])
    options = {"n_streams": 4, "n_steps": 3, "reset": False, "order": order}
    all_streams = list(read_once(split, **options))
    per_process = [
        list(read_once(split, **options, local_streams=streams))
        for streams in (range(2), range(2, 4))
    ]
    for segment, *parts in zip(all_streams, *per_process, strict=True):
        assert np.array_equal(segment.targets, np.concatenate([p.targets for p in parts], axis=2))
        assert np.array_equal(segment.real, np.concatenate([p.real for p in parts], axis=1))


CONFIGS = st.builds(
    StreamConfig,
    batch_size=st.integers(1, 4),
    unroll=st.integers(1, 6),
    order=st.just("shuffled"),
    directions=st.sampled_from(["together", "independent"]),
    reset=st.sampled_from([0.0, 0.5, 1.0]),
) | st.builds(StreamConfig, batch_size=st.just(1), unroll=st.integers(1, 6), order=st.just("text"))


def take(loader, count):
    return list(itertools.islice(loader, count))


def is_same(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("inputs", "targets", "resets", "real")
    )


@FAST
@given(SENTENCES, CONFIGS, st.integers(0, 12), st.integers(0, 99))
def test_segment_loader_continues_from_restored_position(sentences, config, n_before, seed):
    split = split_of(sentences, 2)
    loader = SegmentLoader(split, config, seed=seed)
    position = take(loader, n_before)[-1].position if n_before else loader.position()
    expected = take(loader, 5)
    # A new loader, and one that has already looked ahead.
    for restored in (SegmentLoader(split, config, seed=seed), loader):
        restored.restore(position)
        for first, second in zip(expected, take(restored, 5), strict=True):
            assert is_same(first, second)
            assert first.position == second.position


def test_segment_position_does_not_change_while_loader_advances():
    loader = SegmentLoader(split_of([[1, 2], [3]]), StreamConfig(batch_size=2, unroll=2), seed=1)
    first = next(iter(loader)).position
    copy = str(first)
    take(loader, 5)
    assert str(first) == copy


@FAST
@given(SENTENCES, CONFIGS)
def test_local_streams_equal_same_streams_of_full_loader(sentences, config):
    split = split_of(sentences)
    whole = take(SegmentLoader(split, config, seed=3), 6)
    for stream in range(config.batch_size):
        streams = range(stream, stream + 1)
        local = take(SegmentLoader(split, config, seed=3, local_streams=streams), 6)
        for part, full in zip(local, whole, strict=True):
            assert np.array_equal(part.inputs[:, :, 0], full.inputs[:, :, stream])
            assert np.array_equal(part.targets[:, :, 0], full.targets[:, :, stream])
            assert np.array_equal(part.resets[:, :, 0], full.resets[:, :, stream])
            assert part.position == full.position


@FAST
@given(SENTENCES, st.integers(1, 3), st.integers(0, 99))
def test_shuffled_order_draws_every_sentence_once_per_epoch(sentences, n_shards, seed):
    split = split_of(sentences, n_shards)
    order = ShuffledOrder(split, seed)
    n = split.n_sentences
    for epoch in range(3):
        drawn = []
        while len(drawn) < n:
            drawn += order.sentences(epoch * n + len(drawn), 4).tolist()
        assert sorted(drawn) == list(range(n))


def test_shuffled_order_differs_between_epochs_and_seeds():
    split = split_of([[word] for word in range(50)])
    draws = {
        tuple(ShuffledOrder(split, seed).sentences(e * 50, 50)) for seed in (1, 2) for e in (0, 1)
    }
    assert len(draws) == 4


def test_directions_share_sentences_unless_independent():
    sentences = [[number] * 3 for number in range(40)]
    config = StreamConfig(batch_size=2, unroll=4)
    segment = next(iter(SegmentLoader(split_of(sentences), config, seed=1)))
    assert np.array_equal(segment.inputs[0][1:4], segment.inputs[1][1:4])
    independent = StreamConfig(batch_size=2, unroll=4, directions="independent")
    segment = next(iter(SegmentLoader(split_of(sentences), independent, seed=1)))
    assert not np.array_equal(segment.inputs[0][1:4], segment.inputs[1][1:4])


def test_text_order_reads_one_contiguous_part_per_stream():
    sentences = [[number] for number in range(10)]
    segments = take(
        SegmentLoader(
            split_of(sentences), StreamConfig(batch_size=2, unroll=5, order="text"), seed=1
        ),
        3,
    )
    words = [
        [int(w) - 2 for segment in segments for w in segment.targets[0, :, stream] if w > 1]
        for stream in (0, 1)
    ]
    assert words == [[0, 1, 2, 3, 4, 0, 1, 2], [5, 6, 7, 8, 9, 5, 6, 7]]


@FAST
@given(SENTENCES, st.integers(1, 25))
def test_every_contiguous_stream_has_a_part_of_the_text(sentences, n_streams):
    if n_streams > len(sentences):
        with pytest.raises(ConfigError, match="batch_size"):
            ContiguousStreams(split_of(sentences), n_streams, 3)
        return
    streams = ContiguousStreams(split_of(sentences), n_streams, 3)
    assert (streams._size > 0).all()
    assert streams._size.sum() == sum(len(s) + 1 for s in sentences)


def test_reset_option_resets_state_for_a_fraction_of_sentences():
    sentences = [[1]] * 2000
    config = StreamConfig(batch_size=4, unroll=10, reset=0.3)
    segments = take(SegmentLoader(split_of(sentences), config, seed=7), 100)
    resets = sum(int(segment.resets[0].sum()) for segment in segments)
    starts = sum(int((segment.inputs[0] == 0).sum()) for segment in segments)
    assert 0.25 < resets / starts < 0.35
    for segment in segments:
        assert np.array_equal(segment.resets[0], segment.resets[1])
        assert not (segment.resets[0] & (segment.inputs[0] != 0)).any()


def test_segment_loader_and_read_once_reject_text_without_sentences():
    empty = Split.of([])
    with pytest.raises(ConfigError, match="no sentence"):
        SegmentLoader(empty, StreamConfig(), seed=1)
    with pytest.raises(ConfigError, match="no sentence"):
        list(read_once(empty, n_streams=1, n_steps=1, reset=False))


def test_queued_streams_read_all_sentences_with_small_lookup_block(monkeypatch):
    monkeypatch.setattr(bptt_streams, "BLOCK", 3)
    sentences = [[n, n] for n in range(11)]
    pairs = QueuedStreams(SequentialOrder(split_of(sentences)), 2, 40).next_segment(range(2))
    assert sorted(set(pairs.sentence.tolist())) == list(range(11))
