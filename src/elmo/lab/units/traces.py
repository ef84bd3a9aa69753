"""`UnitTraces`: the values of the units of a network over a text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmo.config.language_models import Unit
from elmo.errors import ConfigError
from elmo.text.vocabulary import UNKNOWN

Kind = Literal["hidden", "cell", "input", "forget", "output", "candidate", "reset", "update"]
Direction = Literal["forward", "backward"]
Guess = tuple[str, float]
Sentences = Sequence[Sequence[str]]

KINDS: tuple[Kind, ...] = get_args(Kind)
GATES: tuple[Kind, ...] = ("input", "forget", "output", "reset", "update")
"""Kinds with values from 0 to 1."""


@dataclass(frozen=True, order=True)
class Track:
    """Which values of a network: a layer (0 is the lowest), a direction and a kind."""

    layer: int
    direction: Direction
    kind: Kind

    def __str__(self) -> str:
        """Return the layer, counted from 0, the kind, and the direction if it is backward."""
        direction = "" if self.direction == "forward" else f" {self.direction}"
        return f"layer {self.layer} {self.kind}{direction}"


@dataclass(frozen=True)
class TextSample:
    """Parts of a text that were read.

    Attributes:
        windows: Ranges of positions of the whole text, ascending.
        pieces: Pieces of the whole text.
    """

    windows: tuple[range, ...]
    pieces: Sequence[str]


@dataclass(frozen=True)
class UnitTraces:
    """The values of the units of a network over a text.

    The value of a unit at a position is its value after reading the piece at that position.
    Surprisal and guesses are those of the prediction of this piece, before it is read. For a model
    with two directions they are those of the forward direction.

    Attributes:
        pieces: Text of each position. The end of a line of words is a line break. The bytes of a
            character have the character at its first byte and empty strings at the others.
        unit: What a position is.
        values: Values of the units by track, (positions, units).
        surprisal: Bits of each piece, given those before it; NaN if the piece was not predicted.
            None if the model has no predictions, or they were not computed.
        guesses: Most likely pieces at each position, with their probabilities; empty if the piece
            was not predicted. None like `surprisal`.
        note: What the user should know about the text, such as how much of it was read.
        sample: Which parts of the text were read; None if all of it was. Pieces, values and
            predictions are those of the parts, one after the other.
        line_ends: Positions of the whole text after which a line ends, if the network does not read
            the ends of lines; empty if they are pieces.
        unknown: Rows of the pieces that are not in the vocabulary of the model. Their surprisal is
            that of `<UNK>`.
    """

    pieces: tuple[str, ...]
    unit: Unit
    values: Mapping[Track, NDArray[np.float32]]
    surprisal: NDArray[np.float32] | None = None
    guesses: tuple[tuple[Guess, ...], ...] | None = None
    note: str = ""
    sample: TextSample | None = None
    line_ends: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Check that all arrays have one row per position."""
        lengths = {len(values) for values in self.values.values()}
        lengths |= {len(part) for part in (self.surprisal, self.guesses) if part is not None}
        if self.sample is not None:
            lengths.add(sum(map(len, self.sample.windows)))
        if lengths - {len(self.pieces)}:
            raise ConfigError(
                f"Traces have {len(self.pieces)} pieces but values of other lengths: "
                f"{sorted(lengths)}."
            )

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.pieces)

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks by layer, direction (forward first) and kind (in the order of `KINDS`)."""
        return tuple(
            sorted(
                self.values,
                key=lambda track: (
                    track.layer,
                    track.direction == "backward",
                    KINDS.index(track.kind),
                ),
            )
        )

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Position of each piece in the whole text."""
        if self.sample is None:
            return np.arange(len(self.pieces))
        return np.concatenate(
            [np.arange(window.start, window.stop) for window in self.sample.windows]
        )

    @property
    def parts(self) -> tuple[range, ...]:
        """The parts of the text that were read, as ranges of rows of the values."""
        if self.sample is None:
            return (range(len(self.pieces)),)
        ends = list(accumulate(map(len, self.sample.windows), initial=0))
        return tuple(range(*pair) for pair in pairwise(ends))

    @property
    def notes(self) -> str:
        """The note, and the share of pieces that are not in the vocabulary of the model."""
        if not self.unknown:
            return self.note
        n_pieces = len(self)
        if self.unit == "words":
            n_pieces -= self.pieces.count("\n")
        count = f"{len(self.unknown):,} of {n_pieces:,} {self.unit}"
        share = f"{len(self.unknown) / n_pieces:.2%}"
        effect = "" if self.surprisal is None else f", whose surprisal is that of {UNKNOWN}"
        note = f"Not in the vocabulary of the model: {count} ({share}){effect}."
        return f"{self.note} {note}" if self.note else note

    @property
    def text(self) -> str:
        """The text that was read; words are separated by spaces."""
        return self._joined(self.pieces, self.positions.tolist())

    @cached_property
    def whole_text(self) -> str:
        """The text with the parts that were not read."""
        if self.sample is None:
            return self.text
        return self._joined(self.sample.pieces, range(len(self.sample.pieces)))

    def _joined(self, pieces: Sequence[str], positions: Sequence[int]) -> str:
        if self.unit != "words":
            return "".join(pieces)
        if self.line_ends:
            ends = ("\n" if position in self.line_ends else "" for position in positions)
            pieces = [piece + end for piece, end in zip(pieces, ends, strict=True)]
        return re.sub(" ?\n ?", "\n", " ".join(pieces))


def check_kinds(kinds: object) -> tuple[Kind, ...]:
    """Return the kinds of values to read, in the order of `KINDS`; all if None is given."""
    if kinds is None:
        return KINDS
    if isinstance(kinds, str):
        kinds = (kinds,)
    if not isinstance(kinds, list | tuple | set | frozenset) or not kinds:
        raise ConfigError(f"kinds must be a list of kinds of values (got {kinds!r}).")
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"Unknown kind {kind!r}. Expected one of: {', '.join(KINDS)}.")
    return tuple(kind for kind in KINDS if kind in kinds)
