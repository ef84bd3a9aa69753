"""Assignment of sentences to the streams (batch rows) of truncated BPTT.

This module does not look up words. A stream is an endless sequence of prediction pairs: an input
token and its target. A sentence of n words has n + 1 pairs. The content of each stream is
determined by a few integers, so that any process can compute any stream, and positions can be saved
and restored.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np

from elmo.corpus.shards import Numbers, Split
from elmo.errors import ConfigError


class StreamPosition(TypedDict, total=False):
    """Position of a layout: `taken` of `ContiguousStreams`, other keys of `QueuedStreams`."""

    drawn: int
    draw: list[int]
    offset: list[int]
    taken: int


@dataclass(frozen=True)
class PredictionPairs:
    """The prediction pairs of a BPTT segment, as arrays with one entry per pair.

    They are the stream, the step in the segment, the index of the sentence in the split, the offset
    in the sentence, and the index of the sentence in reading order, `draw`, which is counted over
    all epochs.
    """

    stream: Numbers
    step: Numbers
    sentence: Numbers
    offset: Numbers
    draw: Numbers


class StreamLayout(Protocol):
    """Assigns sentences to streams, segment by segment."""

    def next_segment(self, local_streams: range) -> PredictionPairs:
        """Return the pairs of the next segment for the given streams."""

    def is_over(self) -> bool:
        """Whether all sentences have been read."""

    def position(self) -> StreamPosition:
        """Return the current position as plain data."""

    def restore(self, position: StreamPosition) -> None:
        """Continue from a saved position."""


# ----------------------------------------------------------------------------- sentence order


class SentenceOrder(Protocol):
    """The order in which sentences are drawn."""

    split: Split

    def sentences(self, draw: int, count: int) -> Numbers:
        """Return the sentence indices of up to `count` draws; empty after the last draw."""


class SequentialOrder:
    """The order of the text, for one epoch."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def sentences(self, draw: int, count: int) -> Numbers:
        """Return up to `count` sentence indices, starting at index `draw`."""
        return np.arange(draw, min(draw + count, self.split.n_sentences))


class ShuffledOrder:
    """Endless epochs; each one shuffles the shards, and the sentences within each shard."""

    def __init__(self, split: Split, seed: int) -> None:
        """Create the order for the sentences of a split; the same seed yields the same order."""
        self.split = split
        self.seed = seed
        self._cached: tuple[tuple[int, int], Numbers] = ((-1, -1), np.zeros(0, dtype=np.int64))

    def sentences(self, draw: int, count: int) -> Numbers:
        """Return up to `count` sentence indices, none beyond the shard of the first draw."""
        epoch, position = divmod(draw, self.split.n_sentences)
        shards = np.random.default_rng((self.seed, epoch)).permutation(len(self.split.shards))
        sizes = np.diff(self.split.first)[shards]
        ends = np.cumsum(sizes)
        turn = int(np.searchsorted(ends, position, side="right"))
        order = self._shard_order(epoch, int(shards[turn]))
        start = position - int(ends[turn] - sizes[turn])
        return order[start : start + count]

    def _shard_order(self, epoch: int, shard: int) -> Numbers:
        if self._cached[0] != (epoch, shard):
            generator = np.random.default_rng((self.seed, epoch, shard))
            first = int(self.split.first[shard])
            order = generator.permutation(self.split.shards[shard].n_sentences) + first
            self._cached = (epoch, shard), order
        return self._cached[1]


# ----------------------------------------------------------------------------- streams

# Number of draws looked up at a time.
BLOCK = 4096


class QueuedStreams:
    """Streams that take their sentences in turn from one shared queue, as in bilm-tf."""

    def __init__(self, order: SentenceOrder, n_streams: int, n_steps: int) -> None:
        """Create streams (batch rows) that start with the first draw."""
        self.order = order
        self.n_steps = n_steps
        self.drawn = 0
        # Of the sentence that each stream is reading: draw, number, pairs read, pairs in total.
        self._draw = np.full(n_streams, -1)
        self._sentence, self._offset, self._length = np.zeros((3, n_streams), dtype=np.int64)
        self._clear_ahead()

    def _clear_ahead(self) -> None:
        # The next draws: sentence number and pair count of each, (2, draws).
        self._ahead = np.zeros((2, 0), dtype=np.int64)

    def _look_up(self, draw: int, count: int) -> Numbers:
        """Return the sentence index and the pair count of up to `count` draws, (2, draws)."""
        sentences = self.order.sentences(draw, count)
        return np.stack([sentences, self.order.split.lengths(sentences) + 1])

    def _look_ahead(self) -> bool:
        """Look up more draws, and return whether there were any."""
        more = self._look_up(self.drawn + len(self._ahead[0]), BLOCK)
        self._ahead = np.concatenate([self._ahead, more], axis=1)
        return len(more[0]) > 0

    def _draw_counts(self, wanted: Numbers) -> Numbers:
        """Return how many sentences each stream must draw to get `wanted` pairs, (streams,)."""
        ends = np.cumsum(self._ahead[1]).tolist()
        bounds, used = [0], 0
        for pairs in wanted.tolist():
            bound = bounds[-1]
            if pairs:
                bound = bisect_left(ends, used + pairs, bound)
                while bound == len(ends) and self._look_ahead():
                    ends = np.cumsum(self._ahead[1]).tolist()
                    bound = bisect_left(ends, used + pairs, bound)
                # At the end of the text a stream gets what remains.
                bound = min(bound + 1, len(ends))
                used = ends[bound - 1] if bound else 0
            bounds.append(bound)
        return np.diff(bounds)

    def next_segment(self, local_streams: range) -> PredictionPairs:
        """Return the pairs of the next segment for the given streams, and advance all streams."""
        streams = np.arange(len(self._draw))
        left = np.minimum(self._length - self._offset, self.n_steps)
        counts = self._draw_counts(self.n_steps - left)
        n_draws = int(counts.sum())
        sentence, pairs = self._ahead[:, :n_draws]
        draw = self.drawn + np.arange(n_draws)
        stream = np.repeat(streams, counts)
        # A sentence starts after the rest of the previous one and after those drawn before it.
        before = np.concatenate([[0], np.cumsum(pairs)])
        first = np.cumsum(counts) - counts
        step = left[stream] + before[:-1] - before[first[stream]]
        taken = np.minimum(pairs, self.n_steps - step)
        parts = np.concatenate(
            [
                [streams, 0 * streams, self._sentence, self._offset, self._draw, left],
                [stream, step, sentence, 0 * stream, draw, taken],
            ],
            axis=1,
        )
        self._offset += left
        (new,) = np.nonzero(counts)
        last = (first + counts - 1)[new]
        self._draw[new], self._sentence[new] = draw[last], sentence[last]
        self._length[new], self._offset[new] = pairs[last], taken[last]
        self.drawn += n_draws
        self._ahead = self._ahead[:, n_draws:]
        is_local = (parts[0] >= local_streams.start) & (parts[0] < local_streams.stop)
        return _expand(parts[:, is_local])

    def is_over(self) -> bool:
        """Whether every sentence has been read to its end."""
        reading = bool((self._offset < self._length).any())
        return not reading and not len(self.order.sentences(self.drawn, 1))

    def position(self) -> StreamPosition:
        """Return the total number of draws, and the draw index and offset of each stream."""
        return {
            "drawn": self.drawn,
            "draw": self._draw.tolist(),
            "offset": self._offset.tolist(),
        }

    def restore(self, position: StreamPosition) -> None:
        """Continue from a saved position."""
        self.drawn = position["drawn"]
        self._draw = np.array(position["draw"])
        self._offset = np.array(position["offset"])
        self._clear_ahead()
        for stream, draw in enumerate(position["draw"]):
            current = (0, 0) if draw < 0 else self._look_up(draw, 1)[:, 0]
            self._sentence[stream], self._length[stream] = current


def _expand(parts: Numbers) -> PredictionPairs:
    """Expand parts of sentences into their prediction pairs.

    The six rows of `parts` are stream, first step, sentence, first offset, draw index and pair
    count.
    """
    counts = parts[5]
    stream, step, sentence, offset, draw = np.repeat(parts[:5], counts, axis=1)
    inside = np.arange(len(stream)) - np.repeat(np.cumsum(counts) - counts, counts)
    return PredictionPairs(stream, step + inside, sentence, offset + inside, draw)


class ContiguousStreams:
    """Streams that each read one contiguous part of the text, once or in endless epochs."""

    def __init__(self, split: Split, n_streams: int, n_steps: int, *, endless: bool = True) -> None:
        """Cut the text into one part per stream, which endless streams repeat."""
        if n_streams > split.n_sentences:
            raise ConfigError(
                f"batch_size ({n_streams}) is larger than the number of sentences in the text "
                f"({split.n_sentences}). With order=text every batch row reads its own part of the "
                "text; use a smaller batch_size."
            )
        self.split = split
        self.n_steps = n_steps
        self.endless = endless
        self.taken = 0
        lengths = split.lengths(np.arange(split.n_sentences)) + 1
        self._first_pair = np.concatenate([[0], np.cumsum(lengths)])
        total = int(self._first_pair[-1])
        # Cut at the nearest sentence, and leave at least one sentence for each stream.
        cuts = np.searchsorted(self._first_pair, np.arange(n_streams) * total // n_streams)
        least = np.arange(n_streams)
        most = split.n_sentences - n_streams + least
        cuts = np.minimum(np.maximum.accumulate(cuts - least) + least, most)
        bounds = self._first_pair[np.append(cuts, split.n_sentences)]
        self._begin, self._size = bounds[:-1], np.diff(bounds)

    def next_segment(self, local_streams: range) -> PredictionPairs:
        """Return the pairs of the next segment for the given streams."""
        position = (self.taken + np.arange(self.n_steps))[:, None]
        step, column = np.indices((self.n_steps, len(local_streams)))
        size = self._size[local_streams.start : local_streams.stop]
        inside = np.full(step.shape, True) if self.endless else position < size
        begin = self._begin[local_streams.start : local_streams.stop]
        pair = (begin + position % size)[inside]
        sentence = np.searchsorted(self._first_pair, pair, side="right") - 1
        self.taken += self.n_steps
        return PredictionPairs(
            stream=column[inside] + local_streams.start,
            step=step[inside],
            sentence=sentence,
            offset=pair - self._first_pair[sentence],
            draw=(position // size)[inside] * self.split.n_sentences + sentence,
        )

    def is_over(self) -> bool:
        """Whether every part has been read to its end."""
        return not self.endless and self.taken >= int(self._size.max())

    def position(self) -> StreamPosition:
        """Return the number of pairs that each stream has read."""
        return {"taken": self.taken}

    def restore(self, position: StreamPosition) -> None:
        """Continue from a saved position."""
        self.taken = position["taken"]
