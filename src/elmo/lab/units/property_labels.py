"""Labels of the positions of traces: one value of a property per position."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.lab.units.text_properties import TextProperty
from elmo.lab.units.traces import UnitTraces

# Stands for a position without a label in a file of labels.
GAP = "-"
# Characters before and after a part of a text that decide about properties in it. An unbalanced
# bracket or quote has no effect beyond them.
CONTEXT = 10_000


@dataclass(frozen=True)
class PropertyLabels:
    """Values of a property at each position of a text.

    Attributes:
        name: Name of the property.
        description: Description of the property; empty if the name says it.
        values: Values, NaN at positions that do not count: the ends of lines of words, and those
            without a label.
        is_boolean: Whether the property is true or false, rather than a number.
    """

    name: str
    description: str
    values: NDArray[np.float32]
    is_boolean: bool

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Whether each position counts."""
        return ~np.isnan(self.values)


def text_labels(name: str, text_property: TextProperty, traces: UnitTraces) -> PropertyLabels:
    """Return the labels of a property of characters, at the positions of any model.

    Whether a position is inside quotes can depend on text that was not read. The property is
    therefore computed with the text around each part that was read.
    """
    text = traces.whole_text
    begins, ends = _offsets(traces)
    values = np.empty(len(traces), dtype=np.float32)
    is_boolean = True
    for part in traces.parts:
        first = max(0, int(begins[part.start]) - CONTEXT)
        of_characters = text_property.function(text[first : int(ends[part.stop - 1]) + CONTEXT])
        is_boolean = of_characters.dtype == bool
        numbers = slice(part.start, part.stop)
        begin, end = begins[numbers] - first, ends[numbers] - first
        values[numbers] = of_characters[np.maximum(end - 1, 0)]
        if traces.unit == "words" and text_property.of_word == "any":
            before = np.concatenate([[0], np.cumsum(of_characters)])
            values[numbers] = before[end] > before[begin]
    if traces.unit == "words":
        values[_line_breaks(traces.pieces)] = np.nan
    return PropertyLabels(name, text_property.description, values, is_boolean)


def number_labels(name: str, numbers: Sequence[float], traces: UnitTraces) -> PropertyLabels:
    """Return the labels given by one number per position; for words, without line breaks.

    Args:
        name: Name of the property.
        numbers: One number per position of the whole text, NaN for positions without a label.
        traces: Traces of the text.

    Raises:
        InputError: There are not enough numbers or too many, or some are infinite.
    """
    pieces = traces.pieces if traces.sample is None else traces.sample.pieces
    is_labeled = np.ones(len(pieces), dtype=bool)
    if traces.unit == "words":
        is_labeled = ~_line_breaks(pieces)
    n_needed = int(is_labeled.sum())
    if len(numbers) != n_needed:
        raise InputError(
            f"The text has {n_needed:,} {traces.unit}, but there are {len(numbers):,} labels. "
            "Expected one label for each of them."
        )
    whole = np.full(len(pieces), np.nan, dtype=np.float32)
    whole[is_labeled] = np.asarray(numbers, dtype=np.float32)
    if np.isinf(whole).any():
        raise InputError("The labels contain infinite values.")
    values = whole[traces.positions]
    if traces.unit == "words":
        values[_line_breaks(traces.pieces)] = np.nan
    known = np.unique(values[~np.isnan(values)])
    return PropertyLabels(name, "", values, set(known) <= {0.0, 1.0})


def read_numbers(path: Path) -> list[float]:
    """Read numbers that are separated by white space; `-` is a position without a label."""
    try:
        words = path.read_text(encoding="utf-8").split()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    numbers: list[float] = []
    for number, word in enumerate(words, start=1):
        try:
            numbers.append(math.nan if word == GAP else float(word))
        except ValueError:
            raise InputError(f"{path}: label {number} is not a number (got {word!r}).") from None
    return numbers


def _line_breaks(pieces: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([piece == "\n" for piece in pieces])


def _offsets(traces: UnitTraces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begin and end of each piece in the whole text; words are separated by spaces."""
    positions = traces.positions
    if traces.unit == "characters":
        return positions, positions + 1
    pieces = traces.pieces if traces.sample is None else traces.sample.pieces
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    if traces.unit == "bytes":
        ends = np.cumsum(lengths)[positions]
        return ends - lengths[positions], ends
    text = traces.whole_text
    begins: list[int] = []
    position = 0
    for piece in pieces:
        # At most a space, or the end of a line that is no piece, is between two words.
        separator = text[position : position + 1]
        position += separator in (" ", "\n") and piece != separator
        begins.append(position)
        position += len(piece)
    starts = np.array(begins, dtype=np.int64)[positions]
    return starts, starts + lengths[positions]
