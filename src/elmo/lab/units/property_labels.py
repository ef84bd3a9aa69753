"""Labels of the positions of traces: one value of a property per position."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.lab.units.text_properties import TextProperty
from elmo.lab.units.traces import UnitTraces


@dataclass(frozen=True)
class PropertyLabels:
    """Values of a property at each position of a text.

    Attributes:
        name: Name of the property.
        description: Description of the property; empty if the name says it.
        values: Values, NaN at positions that do not count, such as the ends of lines of words.
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
    """Return the labels of a property of characters, at the positions of any model."""
    text = traces.text
    of_characters = text_property.function(text)
    is_boolean = of_characters.dtype == bool
    begins, ends = _offsets(traces, text)
    values = of_characters[np.maximum(ends - 1, 0)].astype(np.float32)
    if traces.unit == "words":
        if text_property.of_word == "any":
            before = np.concatenate([[0], np.cumsum(of_characters)])
            values = (before[ends] > before[begins]).astype(np.float32)
        values[_line_breaks(traces)] = np.nan
    return PropertyLabels(name, text_property.description, values, is_boolean)


def number_labels(name: str, numbers: Sequence[float], traces: UnitTraces) -> PropertyLabels:
    """Return the labels given by one number per position; for words, without line breaks.

    Args:
        name: Name of the property.
        numbers: At least as many numbers as the text has positions.
        traces: Traces of the text.

    Raises:
        InputError: There are not enough numbers.
    """
    values = np.full(len(traces), np.nan, dtype=np.float32)
    is_labeled = ~_line_breaks(traces) if traces.unit == "words" else np.ones(len(traces), bool)
    n_needed = int(is_labeled.sum())
    is_longer = len(numbers) > n_needed and not traces.note
    if len(numbers) < n_needed or is_longer:
        raise InputError(
            f"The text has {n_needed:,} {traces.unit}, but there are {len(numbers):,} labels of "
            f"{name}. Expected one label for each of them."
        )
    values[is_labeled] = np.asarray(numbers[:n_needed], dtype=np.float32)
    if np.isinf(values).any() or np.isnan(values[is_labeled]).any():
        raise InputError(f"The labels of {name} contain NaN or infinite values.")
    is_boolean = set(np.unique(values[is_labeled])) <= {0.0, 1.0}
    return PropertyLabels(name, "", values, is_boolean)


def read_numbers(path: Path) -> list[float]:
    """Read a file with one number per line."""
    try:
        lines = path.read_text(encoding="utf-8").split()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    numbers: list[float] = []
    for number, line in enumerate(lines, start=1):
        try:
            numbers.append(float(line))
        except ValueError:
            raise InputError(f"{path}: label {number} is not a number (got {line!r}).") from None
    return numbers


def _line_breaks(traces: UnitTraces) -> NDArray[np.bool_]:
    return np.array([piece == "\n" for piece in traces.pieces])


def _offsets(traces: UnitTraces, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begin and end of each piece in the text; words are separated by spaces."""
    lengths = np.array([len(piece) for piece in traces.pieces], dtype=np.int64)
    if traces.unit != "words":
        ends = np.cumsum(lengths)
        return ends - lengths, ends
    begins: list[int] = []
    position = 0
    for piece in traces.pieces:
        # A space is at most between two words.
        position += text[position : position + 1] == " " and piece != " "
        begins.append(position)
        position += len(piece)
    starts = np.array(begins, dtype=np.int64)
    return starts, starts + lengths
