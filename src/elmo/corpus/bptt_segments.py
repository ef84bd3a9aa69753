"""Truncated BPTT segments: fixed-length segments of continuous token streams, without padding.

A sentence of n words yields n + 1 prediction pairs of an input and its target. The forward
direction reads `<S> w1 ... wn` and predicts `w1 ... wn </S>`; the backward direction reads `</S> wn
... w1` and predicts `wn ... w1 <S>`. Each stream (batch row) is an endless sequence of pairs that
is cut into segments. A sentence can continue in the next segment; the LSTM state of its stream is
then carried over. Token ids are 0 for `<S>`, 1 for `</S>`, and 2 + n for word n of the corpus.

`bptt_streams` assigns sentences to streams and time steps; this module looks up their words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.config import StreamConfig
from elmo.corpus.bptt_streams import (
    ContiguousStreams,
    PredictionPairs,
    QueuedStreams,
    SequentialOrder,
    ShuffledOrder,
    StreamLayout,
    StreamPosition,
)
from elmo.corpus.shards import Numbers, Split
from elmo.errors import ConfigError

TextPosition = dict[str, list[StreamPosition]]

BEGIN, END, FIRST_WORD = 0, 1, 2

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class BPTTSegment:
    """Consecutive time steps of several streams. Direction 0 is forward, direction 1 backward.

    Input and target ids, and the state resets before each step, are (2, steps, streams). Whether a
    position contains text, `real`, is (steps, streams); only in evaluation, positions after the end
    of the text are False. `position` is that in the text after this segment.
    """

    inputs: Numbers
    targets: Numbers
    resets: Flags
    real: Flags
    position: TextPosition


class SegmentLoader:
    """Endless training segments from a split, for all streams or those of one process."""

    def __init__(
        self, split: Split, config: StreamConfig, *, seed: int, local_streams: range | None = None
    ) -> None:
        """Start at the beginning; the seed determines sentence order and state resets."""
        if not split.n_sentences:
            raise ConfigError("The training text contains no sentences.")
        self.split = split
        self.config = config
        self.local_streams = range(config.batch_size) if local_streams is None else local_streams
        self._seed = seed
        n_layouts = 2 if config.directions == "independent" else 1
        self._layouts = [self._make_layout(seed + number) for number in range(n_layouts)]

    def _make_layout(self, seed: int) -> StreamLayout:
        config = self.config
        if config.order == "text":
            return ContiguousStreams(self.split, config.batch_size, config.unroll)
        return QueuedStreams(ShuffledOrder(self.split, seed), config.batch_size, config.unroll)

    def __iter__(self) -> Iterator[BPTTSegment]:
        while True:
            pairs = [layout.next_segment(self.local_streams) for layout in self._layouts]
            yield build_segment(
                self.split,
                (pairs[0], pairs[-1]),
                self.config.unroll,
                self.local_streams,
                reset=self.config.reset or 0.0,
                seed=self._seed,
                position=self.position(),
            )

    def position(self) -> TextPosition:
        """Return the current position as JSON-compatible data."""
        return {"streams": [layout.position() for layout in self._layouts]}

    def restore(self, position: TextPosition) -> None:
        """Continue from a position returned by `position`."""
        # "lanes" is the key in checkpoints of earlier versions.
        positions = position["streams" if "streams" in position else "lanes"]
        for layout, layout_position in zip(self._layouts, positions, strict=True):
            layout.restore(layout_position)


def read_once(
    split: Split,
    *,
    n_streams: int,
    n_steps: int,
    reset: bool,
    order: Literal["queue", "text"] = "queue",
    drop_tail: bool = False,
    local_streams: range | None = None,
) -> Iterator[BPTTSegment]:
    """Yield the segments of a single pass over a split, for evaluation.

    If `reset`, every sentence starts from the zero state. With the order `queue`, a stream (batch
    row) that has finished a sentence takes the next one from a shared queue, as in bilm-tf; with
    `text`, each stream reads one contiguous part of the text. `drop_tail` drops the incomplete last
    segment, as bilm-tf does. By default, all streams are built.
    """
    if not split.n_sentences:
        raise ConfigError("The evaluation text contains no sentences.")
    n_streams = min(n_streams, split.n_sentences) if order == "text" else n_streams
    local_streams = (
        range(n_streams)
        if local_streams is None
        else range(min(local_streams.start, n_streams), min(local_streams.stop, n_streams))
    )
    layout: StreamLayout = (
        ContiguousStreams(split, n_streams, n_steps, endless=False)
        if order == "text"
        else QueuedStreams(SequentialOrder(split), n_streams, n_steps)
    )
    while not layout.is_over():
        pairs = layout.next_segment(local_streams)
        if drop_tail and len(pairs.stream) < len(local_streams) * n_steps:
            return
        yield build_segment(
            split, (pairs, pairs), n_steps, local_streams, reset=float(reset), seed=0
        )


# ----------------------------------------------------------------------------- words


def build_segment(
    split: Split,
    directions: tuple[PredictionPairs, PredictionPairs],
    n_steps: int,
    local_streams: range,
    *,
    reset: float,
    seed: int,
    position: TextPosition | None = None,
) -> BPTTSegment:
    """Build a segment by looking up the words of the prediction pairs in both directions.

    `reset` is the fraction of the sentences that start from the zero state, chosen with the seed.
    `position` is the position in the text after the segment.
    """
    shape = (2, n_steps, len(local_streams))
    inputs, targets = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    resets, real = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for direction, pairs in enumerate(directions):
        index = pairs.step * len(local_streams) + pairs.stream - local_streams.start
        is_first = pairs.offset == 0
        real[direction].put(index, True)
        resets[direction].put(index, is_first & _chosen(pairs.draw, reset, seed))
        backward = direction == 1
        predicted = _predicted(split, pairs.sentence, pairs.offset, backward=backward)
        targets[direction].put(index, predicted)
        # An input is the target of the step before; at step 0, the last target of the segment
        # before.
        inputs[direction, 1:] = np.where(real[direction, 1:], targets[direction, :-1], 0)
        at_border = np.flatnonzero((pairs.step == 0) & ~is_first)
        earlier = _predicted(
            split, pairs.sentence[at_border], pairs.offset[at_border] - 1, backward=backward
        )
        inputs[direction].put(index[at_border], earlier)
        inputs[direction].put(index[is_first], END if backward else BEGIN)
    return BPTTSegment(inputs, targets, resets, real[0], position or {})


def _predicted(split: Split, sentences: Numbers, offsets: Numbers, *, backward: bool) -> Numbers:
    """Return the target token ids of prediction pairs, (pairs,)."""
    lengths = split.lengths(sentences)
    words = np.full(len(lengths), BEGIN if backward else END, dtype=np.int64)
    inside = np.flatnonzero(offsets < lengths)
    word_offsets = offsets[inside]
    if backward:
        word_offsets = lengths[inside] - 1 - word_offsets
    words[inside] = split.words_at(sentences[inside], word_offsets) + FIRST_WORD
    return words


def _chosen(draws: Numbers, fraction: float, seed: int) -> Flags:
    """Return whether each draw is in a pseudo-random fraction of all draws (splitmix64 hash)."""
    if fraction in (0.0, 1.0):
        return np.full(len(draws), fraction == 1.0)
    key = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64
    x = draws.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x.astype(np.float64) / 2.0**64 < fraction
