"""Sentences to the windows a language model trains on: lanes, side by side, without padding.

A sentence of n words is n + 1 pairs of an input and its target: the forward side reads
`<S> w1 ... wn` and predicts `w1 ... wn </S>`, the backward side reads `</S> wn ... w1` and
predicts `wn ... w1 <S>`. Each lane is one endless row of pairs, cut into windows; a sentence may
go on in the next window, and the state of a lane with it. Everything is numbers: 0 is `<S>`, 1 is
`</S>`, and 2 + n is word n of the corpus.

Which sentence is read where is settled in `lanes`; here the words are looked up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.config import StreamConfig
from elmo.corpus.bptt_streams import (
    ContiguousStreams,
    Position,
    PredictionPairs,
    QueuedStreams,
    SequentialOrder,
    ShuffledOrder,
    StreamLayout,
)
from elmo.corpus.shards import Numbers, Split
from elmo.errors import ConfigError

BEGIN, END, FIRST_WORD = 0, 1, 2

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class BPTTSegment:
    """Some steps of some lanes; directions are forward, backward.

    Attributes:
        inputs: word numbers, (2, steps, lanes).
        targets: word numbers, (2, steps, lanes).
        resets: where a lane's state is set to zero before the step, (2, steps, lanes).
        real: false where the text had ended, (steps, lanes); only evaluation has such places.
        position: of the stream after this window.
    """

    inputs: Numbers
    targets: Numbers
    resets: Flags
    real: Flags
    position: Position


class SegmentLoader:
    """Windows of one split, for some of its lanes."""

    def __init__(
        self, split: Split, config: StreamConfig, *, seed: int, own: range | None = None
    ) -> None:
        """Begin at the beginning.

        Args:
            split: the text.
            config: lanes, steps, order.
            seed: of order and resets.
            own: lanes to build; all where None.
        """
        if not split.n_sentences:
            raise ConfigError("there is no sentence to train on")
        self.split = split
        self.config = config
        self.own = range(config.batch_size) if own is None else own
        self._seed = seed
        sides = 2 if config.directions == "independent" else 1
        self._lanes = [self._make_lanes(seed + side) for side in range(sides)]

    def _make_lanes(self, seed: int) -> StreamLayout:
        config = self.config
        if config.order == "text":
            return ContiguousStreams(self.split, config.batch_size, config.unroll)
        return QueuedStreams(ShuffledOrder(self.split, seed), config.batch_size, config.unroll)

    def __iter__(self) -> Iterator[BPTTSegment]:
        """Give windows for ever."""
        while True:
            sides = [lanes.window(self.own) for lanes in self._lanes]
            yield build_segment(
                self.split,
                (sides[0], sides[-1]),
                self.config.unroll,
                self.own,
                reset=self.config.reset or 0.0,
                seed=self._seed,
                position=self.position(),
            )

    def position(self) -> Position:
        """Give the place reached, as plain data."""
        return {"lanes": [lanes.position() for lanes in self._lanes]}

    def restore(self, position: Position) -> None:
        """Go to a place that `position` gave."""
        for lanes, place in zip(self._lanes, position["lanes"], strict=True):
            lanes.restore(place)


def read_once(
    split: Split,
    *,
    lanes: int,
    steps: int,
    reset: bool,
    order: Literal["queue", "text"] = "queue",
    drop_tail: bool = False,
    own: range | None = None,
) -> Iterator[BPTTSegment]:
    """Read a split once: how a model is evaluated.

    Args:
        split: the text.
        lanes: side by side.
        steps: of a window.
        reset: whether every sentence begins from the zero state.
        order: queue: a lane that has finished a sentence takes the next one, as in bilm-tf; text:
            each lane reads a part of its own.
        drop_tail: leave out the window in which the text ends, as bilm-tf does.
        own: lanes to build; all where None.
    """
    if not split.n_sentences:
        raise ConfigError("there is no sentence to evaluate on")
    lanes = min(lanes, split.n_sentences) if order == "text" else lanes
    own = range(lanes) if own is None else range(min(own.start, lanes), min(own.stop, lanes))
    source: StreamLayout = (
        ContiguousStreams(split, lanes, steps, endless=False)
        if order == "text"
        else QueuedStreams(SequentialOrder(split), lanes, steps)
    )
    while not source.is_over():
        pairs = source.window(own)
        if drop_tail and len(pairs.lane) < len(own) * steps:
            return
        yield build_segment(split, (pairs, pairs), steps, own, reset=float(reset), seed=0)


# ----------------------------------------------------------------------------- words


def build_segment(
    split: Split,
    sides: tuple[PredictionPairs, PredictionPairs],
    steps: int,
    own: range,
    *,
    reset: float,
    seed: int,
    position: Position | None = None,
) -> BPTTSegment:
    """Look up the words of the pairs of both directions.

    Args:
        split: the text.
        sides: pairs of the forward and of the backward side.
        steps: of the window.
        own: lanes in it.
        reset: share of the sentences that begin from the zero state.
        seed: which ones.
        position: of the stream after the window.
    """
    shape = (2, steps, len(own))
    inputs, targets = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    resets, real = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for side, pairs in enumerate(sides):
        place = pairs.step * len(own) + pairs.lane - own.start
        is_first = pairs.offset == 0
        real[side].put(place, True)
        resets[side].put(place, is_first & _chosen(pairs.draw, reset, seed))
        predicted = _predicted(split, pairs.sentence, pairs.offset, backward=side == 1)
        targets[side].put(place, predicted)
        # What is read was predicted one step before; at the border of a window, in the last one.
        inputs[side, 1:] = np.where(real[side, 1:], targets[side, :-1], 0)
        at_border = np.flatnonzero((pairs.step == 0) & ~is_first)
        earlier = _predicted(
            split, pairs.sentence[at_border], pairs.offset[at_border] - 1, backward=side == 1
        )
        inputs[side].put(place[at_border], earlier)
        inputs[side].put(place[is_first], END if side else BEGIN)
    return BPTTSegment(inputs, targets, resets, real[0], position or {})


def _predicted(split: Split, sentences: Numbers, offsets: Numbers, *, backward: bool) -> Numbers:
    """Give the targets of pairs."""
    lengths = split.lengths(sentences)
    words = np.full(len(lengths), BEGIN if backward else END, dtype=np.int64)
    inside = np.flatnonzero(offsets < lengths)
    places = offsets[inside]
    if backward:
        places = lengths[inside] - 1 - places
    words[inside] = split.words_at(sentences[inside], places) + FIRST_WORD
    return words


def _chosen(draws: Numbers, share: float, seed: int) -> Flags:
    """Choose a share of the draws, each by its own number (the finaliser of splitmix64)."""
    if share in (0.0, 1.0):
        return np.full(len(draws), share == 1.0)
    key = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64
    x = draws.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x.astype(np.float64) / 2.0**64 < share
