"""Which sentence is read in which lane, and when: the accounts behind a stream of windows.

Nothing here looks a word up. A lane is one endless row of pairs of an input and its target, a
sentence of n words being n + 1 of them; what each lane reads follows from a few numbers, so any
process can work out any lane, and a place can be saved and gone back to.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from elmo.corpus.shards import Numbers, Split
from elmo.errors import ConfigError

Position = dict[str, Any]


@dataclass(frozen=True)
class PredictionPairs:
    """Which pairs stand where in a window: one entry for each.

    Attributes:
        lane: (pairs,).
        step: (pairs,).
        sentence: number in the split.
        offset: 0 is the pair that begins the sentence.
        draw: counts sentences as they are read; the same sentence in another epoch has another.
    """

    lane: Numbers
    step: Numbers
    sentence: Numbers
    offset: Numbers
    draw: Numbers


class StreamLayout(Protocol):
    """Decides which sentence is read in which lane."""

    def window(self, own: range) -> PredictionPairs:
        """Give the pairs of the next window in some of the lanes."""

    def is_over(self) -> bool:
        """Whether no window is left."""

    def position(self) -> Position:
        """Give the place reached, as plain data."""

    def restore(self, position: Position) -> None:
        """Go to a place."""


# ----------------------------------------------------------------------------- which sentence


class SentenceOrder(Protocol):
    """Which sentence is drawn when."""

    split: Split

    def sentences(self, draw: int, count: int) -> Numbers:
        """Give up to `count` sentences from a draw on; none where there are no more."""


class SequentialOrder:
    """The order of the text, once."""

    def __init__(self, split: Split) -> None:
        """Take a split."""
        self.split = split

    def sentences(self, draw: int, count: int) -> Numbers:
        """Give the sentences with these numbers."""
        return np.arange(draw, min(draw + count, self.split.n_sentences))


class ShuffledOrder:
    """For ever: in each epoch the shards in another order, and the sentences in each of them."""

    def __init__(self, split: Split, seed: int) -> None:
        """Take a split; the same seed gives the same order."""
        self.split = split
        self.seed = seed
        self._known: tuple[tuple[int, int], Numbers] = ((-1, -1), np.zeros(0, dtype=np.int64))

    def sentences(self, draw: int, count: int) -> Numbers:
        """Give sentences from a draw on, at most to the end of their shard."""
        epoch, place = divmod(draw, self.split.n_sentences)
        shards = np.random.default_rng((self.seed, epoch)).permutation(len(self.split.shards))
        sizes = np.diff(self.split.first)[shards]
        ends = np.cumsum(sizes)
        turn = int(np.searchsorted(ends, place, side="right"))
        order = self._shard_order(epoch, int(shards[turn]))
        start = place - int(ends[turn] - sizes[turn])
        return order[start : start + count]

    def _shard_order(self, epoch: int, shard: int) -> Numbers:
        if self._known[0] != (epoch, shard):
            generator = np.random.default_rng((self.seed, epoch, shard))
            first = int(self.split.first[shard])
            order = generator.permutation(self.split.shards[shard].n_sentences) + first
            self._known = (epoch, shard), order
        return self._known[1]


# ----------------------------------------------------------------------------- which lane

# Draws looked up together.
BLOCK = 4096


class QueuedStreams:
    """One queue of sentences for all lanes, filled one lane after another, as bilm-tf does."""

    def __init__(self, order: SentenceOrder, n_lanes: int, n_steps: int) -> None:
        """Begin with the first draw.

        Args:
            order: the queue.
            n_lanes: side by side.
            n_steps: of a window.
        """
        self.order = order
        self.n_steps = n_steps
        self.drawn = 0
        # Of the sentence each lane is reading: its draw, its number, pairs read, pairs in all.
        self._draw = np.full(n_lanes, -1)
        self._sentence, self._offset, self._length = np.zeros((3, n_lanes), dtype=np.int64)
        self._forget_ahead()

    def _forget_ahead(self) -> None:
        # The draws that come next: sentence and pairs of each, (2, draws).
        self._ahead = np.zeros((2, 0), dtype=np.int64)

    def _look_up(self, draw: int, count: int) -> Numbers:
        """Give sentence and pairs of up to so many draws, (2, draws)."""
        sentences = self.order.sentences(draw, count)
        return np.stack([sentences, self.order.split.lengths(sentences) + 1])

    def _look_ahead(self) -> bool:
        """Look more draws up; tells whether there were any."""
        more = self._look_up(self.drawn + len(self._ahead[0]), BLOCK)
        self._ahead = np.concatenate([self._ahead, more], axis=1)
        return len(more[0]) > 0

    def _share_out(self, wanted: Numbers) -> Numbers:
        """Count the draws of each lane: as many as it takes to have the pairs it wants."""
        ends = np.cumsum(self._ahead[1]).tolist()
        bounds, begun = [0], 0
        for pairs in wanted.tolist():
            place = bounds[-1]
            if pairs:
                place = bisect_left(ends, begun + pairs, place)
                while place == len(ends) and self._look_ahead():
                    ends = np.cumsum(self._ahead[1]).tolist()
                    place = bisect_left(ends, begun + pairs, place)
                # Where the text ends, a lane has what is left.
                place = min(place + 1, len(ends))
                begun = ends[place - 1] if place else 0
            bounds.append(place)
        return np.diff(bounds)

    def window(self, own: range) -> PredictionPairs:
        """Give the pairs of the next window in some of the lanes; the account is kept of all."""
        lanes = np.arange(len(self._draw))
        left = np.minimum(self._length - self._offset, self.n_steps)
        counts = self._share_out(self.n_steps - left)
        n_draws = int(counts.sum())
        sentence, pairs = self._ahead[:, :n_draws]
        draw = self.drawn + np.arange(n_draws)
        lane = np.repeat(lanes, counts)
        # Where a sentence begins: after what was left of the last one and those before it.
        before = np.concatenate([[0], np.cumsum(pairs)])
        first = np.cumsum(counts) - counts
        step = left[lane] + before[:-1] - before[first[lane]]
        taken = np.minimum(pairs, self.n_steps - step)
        parts = np.concatenate(
            [
                [lanes, 0 * lanes, self._sentence, self._offset, self._draw, left],
                [lane, step, sentence, 0 * lane, draw, taken],
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
        return _spread(parts[:, (parts[0] >= own.start) & (parts[0] < own.stop)])

    def is_over(self) -> bool:
        """Whether every sentence has been read to its end."""
        reading = bool((self._offset < self._length).any())
        return not reading and not len(self.order.sentences(self.drawn, 1))

    def position(self) -> Position:
        """Give the number of draws, and draw and offset of each lane."""
        return {
            "drawn": self.drawn,
            "draw": self._draw.tolist(),
            "offset": self._offset.tolist(),
        }

    def restore(self, position: Position) -> None:
        """Go to a place."""
        self.drawn = position["drawn"]
        self._draw = np.array(position["draw"])
        self._offset = np.array(position["offset"])
        self._forget_ahead()
        for lane, draw in enumerate(position["draw"]):
            found = (0, 0) if draw < 0 else self._look_up(draw, 1)[:, 0]
            self._sentence[lane], self._length[lane] = found


def _spread(parts: Numbers) -> PredictionPairs:
    """Give the pairs of parts of sentences.

    Args:
        parts: lane, first step, sentence, first offset, draw, and number of pairs, (6, parts).
    """
    counts = parts[5]
    lane, step, sentence, offset, draw = np.repeat(parts[:5], counts, axis=1)
    inside = np.arange(len(lane)) - np.repeat(np.cumsum(counts) - counts, counts)
    return PredictionPairs(lane, step + inside, sentence, offset + inside, draw)


class ContiguousStreams:
    """The text cut into as many stretches as there are lanes, read again and again, or once."""

    def __init__(self, split: Split, n_lanes: int, n_steps: int, *, endless: bool = True) -> None:
        """Cut the text.

        Args:
            split: the text.
            n_lanes: stretches, equal up to a sentence.
            n_steps: of a window.
            endless: begin a stretch again at its end.
        """
        if n_lanes > split.n_sentences:
            raise ConfigError(
                f"batch_size is {n_lanes}, but the text has {split.n_sentences} sentences; in the "
                "order of the text each row of the batch reads a part of its own"
            )
        self.split = split
        self.n_steps = n_steps
        self.endless = endless
        self.taken = 0
        lengths = split.lengths(np.arange(split.n_sentences)) + 1
        self._first_pair = np.concatenate([[0], np.cumsum(lengths)])
        total = int(self._first_pair[-1])
        # The sentence nearest to each cut, and one at least for each lane.
        cuts = np.searchsorted(self._first_pair, np.arange(n_lanes) * total // n_lanes)
        least = np.arange(n_lanes)
        most = split.n_sentences - n_lanes + least
        cuts = np.minimum(np.maximum.accumulate(cuts - least) + least, most)
        bounds = self._first_pair[np.append(cuts, split.n_sentences)]
        self._begin, self._size = bounds[:-1], np.diff(bounds)

    def window(self, own: range) -> PredictionPairs:
        """Give the pairs of the next window in some of the lanes."""
        place = (self.taken + np.arange(self.n_steps))[:, None]
        step, column = np.indices((self.n_steps, len(own)))
        size = self._size[own.start : own.stop]
        inside = np.full(step.shape, True) if self.endless else place < size
        pair = (self._begin[own.start : own.stop] + place % size)[inside]
        sentence = np.searchsorted(self._first_pair, pair, side="right") - 1
        self.taken += self.n_steps
        return PredictionPairs(
            lane=column[inside] + own.start,
            step=step[inside],
            sentence=sentence,
            offset=pair - self._first_pair[sentence],
            draw=(place // size)[inside] * self.split.n_sentences + sentence,
        )

    def is_over(self) -> bool:
        """Whether every stretch has been read to its end."""
        return not self.endless and self.taken >= int(self._size.max())

    def position(self) -> Position:
        """Give the number of pairs each lane has read."""
        return {"taken": self.taken}

    def restore(self, position: Position) -> None:
        """Go to a place."""
        self.taken = position["taken"]
