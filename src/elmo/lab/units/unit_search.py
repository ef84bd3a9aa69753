"""Search for the units that follow a property: chosen on one half of a text, scored on the other.

With hundreds of units the best one always looks good by chance. So it is chosen on the first half
of the text and scored on the second. The same search with shifted labels shows what chance reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.lab.units.property_labels import PropertyLabels
from elmo.lab.units.traces import Track, UnitTraces
from elmo.lab.units.unit_scores import (
    Floats,
    Values,
    auc,
    centered_ranks,
    correlation,
    mutual_information,
)
from elmo.progress import format_count

Sign = Literal[1, -1]
# Each half needs two positions for a property to vary in it.
MIN_POSITIONS = 4


@dataclass(frozen=True)
class UnitScore:
    """Scores of a unit on the second half of a text.

    Attributes:
        track: Layer, direction and kind of value.
        unit: Number of the unit, from 0.
        sign: Whether the unit is larger (1) or smaller (-1) with the property, on the first half.
        auc: Area under the ROC curve of `sign` times the value; None for properties that are
            numbers.
        correlation: Pearson correlation of `sign` times the value with the property.
        mutual_information: Mutual information in bits.
    """

    track: Track
    unit: int
    sign: Sign
    auc: float | None
    correlation: float
    mutual_information: float

    @property
    def score(self) -> float:
        """AUC, or the correlation for numbers."""
        return self.correlation if self.auc is None else self.auc

    def to_dict(self) -> dict[str, object]:
        """Return the scores as plain data."""
        return {
            "layer": self.track.layer,
            "direction": self.track.direction,
            "kind": self.track.kind,
            "unit": self.unit,
            "sign": self.sign,
            "auc": self.auc,
            "correlation": self.correlation,
            "mutual_information": self.mutual_information,
        }


class _Half:
    """Values and ranks of all units in one half of a text."""

    def __init__(self, values: Values) -> None:
        self.values = values

    @cached_property
    def ranks(self) -> Values:
        """Ranks, which only the AUC needs."""
        return centered_ranks(self.values)

    def scores(self, labels: NDArray[np.float32], is_boolean: bool) -> Floats:
        """Return scores from -1 to 1: 2 AUC - 1, or the correlation."""
        if is_boolean:
            return 2.0 * auc(self.ranks, labels > 0) - 1.0
        return correlation(self.values, labels)


class UnitSearch:
    """The units of a network, in the first and in the second half of a text."""

    def __init__(self, traces: UnitTraces, is_valid: NDArray[np.bool_]) -> None:
        """Divide the valid positions into a first and a second half.

        The properties that are searched must vary in both of them; see `obstacle`.

        Args:
            traces: Values of the units.
            is_valid: Whether each position counts.
        """
        self.parts = _divided(is_valid)
        self.units = [
            (track, unit)
            for track in traces.tracks
            for unit in range(traces.values[track].shape[1])
        ]
        self._both = [
            _Half(np.concatenate([traces.values[track][part] for track in traces.tracks], axis=1))
            for part in self.parts
        ]

    def best(self, labels: PropertyLabels, n: int) -> list[UnitScore]:
        """Return the units with the best scores on the first half, with scores on the second.

        Args:
            labels: The property.
            n: Number of units.
        """
        first, second = self._labels(labels)
        scores = self._both[0].scores(first, labels.is_boolean)
        chosen = np.argsort(-np.abs(scores), kind="stable")[:n]
        half = _Half(self._both[1].values[:, chosen])
        second_scores = half.scores(second, labels.is_boolean)
        correlations = correlation(half.values, second)
        information = mutual_information(half.ranks, second)
        found = []
        for number, index in enumerate(chosen):
            sign: Sign = 1 if scores[index] >= 0 else -1
            score = sign * float(second_scores[number])
            track, unit = self.units[index]
            found.append(
                UnitScore(
                    track,
                    unit,
                    sign=sign,
                    auc=(1.0 + score) / 2.0 if labels.is_boolean else None,
                    correlation=sign * float(correlations[number]),
                    mutual_information=float(information[number]),
                )
            )
        return found

    def null_scores(self, labels: PropertyLabels, n_shifts: int, seed: int) -> Floats:
        """Return the scores of the best units for labels that are shifted circularly.

        The labels keep their runs, but have nothing to do with the text any more. As for the
        property itself, the unit is chosen on the first half and scored on the second.

        Args:
            labels: The property.
            n_shifts: Number of different shifts.
            seed: Seed of the shifts.
        """
        rng = np.random.default_rng(seed)
        shifted: list[NDArray[np.float32]] = []
        for half in self._labels(labels):
            # Not too near the true position, where the labels are still related to the text.
            low = max(1, len(half) // 10)
            shifts = rng.integers(low, max(low + 1, len(half) - low + 1), size=n_shifts)
            shifted.append(np.stack([np.roll(half, shift) for shift in shifts]))
        first, second = (
            half.scores(values, labels.is_boolean)
            for half, values in zip(self._both, shifted, strict=True)
        )
        chosen = np.abs(first).argmax(axis=1)
        rows = np.arange(n_shifts)
        scores = np.sign(first[rows, chosen]) * second[rows, chosen]
        return np.asarray((1.0 + scores) / 2.0 if labels.is_boolean else scores)

    def _labels(self, labels: PropertyLabels) -> list[NDArray[np.float32]]:
        return [labels.values[part] for part in self.parts]


def searches_of(traces: UnitTraces, properties: Sequence[PropertyLabels]) -> list[UnitSearch]:
    """Return one search per property. Properties with the same valid positions share a search."""
    by_positions: dict[bytes, UnitSearch] = {}
    searches: list[UnitSearch] = []
    for labels in properties:
        key = labels.is_valid.tobytes()
        if key not in by_positions:
            by_positions[key] = UnitSearch(traces, labels.is_valid)
        searches.append(by_positions[key])
    return searches


def obstacle(labels: PropertyLabels) -> str:
    """Return why units cannot be searched for a property; empty if they can."""
    n_positions = int(labels.is_valid.sum())
    if n_positions < MIN_POSITIONS:
        count = format_count(n_positions, "position")
        return f"has labels at only {count}, at least {MIN_POSITIONS} are needed"
    for name, part in zip(("first", "second"), _divided(labels.is_valid), strict=True):
        if len(np.unique(labels.values[part])) < 2:
            return f"has the same value everywhere in the {name} half of the text"
    return ""


def _divided(is_valid: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the valid positions of the first and of the second half."""
    positions = np.flatnonzero(is_valid)
    return np.split(positions, [len(positions) // 2])
