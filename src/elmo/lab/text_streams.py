"""Divides a training text into contiguous streams and segments for truncated BPTT."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.config.language_models import SegmentConfig
from elmo.lab.symbols import Ids


@dataclass(frozen=True)
class StreamSegment:
    """Consecutive steps of all streams.

    Attributes:
        inputs: Symbol ids, (time, batch).
        targets: The symbols that follow them, (time, batch).
        is_first: Whether the segment is the first of an epoch.
    """

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    is_first: bool


class TextStreams:
    """Streams of a text: each batch row reads a contiguous part of it, segment by segment.

    The text is a circle, and each epoch begins at another position, so that streams and segments
    begin at other symbols. A segment depends only on the seed and its number.
    """

    def __init__(self, ids: Ids, config: SegmentConfig, seed: int) -> None:
        """Divide a text; segments are shorter than configured if the streams are."""
        self.ids, self.seed = ids, seed
        self.n_rows = config.batch_size
        self.stream_length = len(ids) // self.n_rows
        self.unroll = min(config.unroll, self.stream_length)
        self.segments_per_epoch = self.stream_length // self.unroll

    def segment(self, number: int) -> StreamSegment:
        """Return a segment by its number, counted from 0 over all epochs."""
        epoch, place = divmod(number, self.segments_per_epoch)
        begin = place * self.unroll
        if epoch:
            begin += int(np.random.default_rng((self.seed, epoch)).integers(len(self.ids)))
        rows = begin + self.stream_length * np.arange(self.n_rows)
        positions = rows + np.arange(self.unroll + 1)[:, None]
        window = self.ids[positions % len(self.ids)].astype(np.int64)
        return StreamSegment(window[:-1], window[1:], place == 0)
