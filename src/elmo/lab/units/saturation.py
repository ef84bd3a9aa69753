"""Saturated gates, and time scales of units from their forget gates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.lab.units.traces import GATES, Track, UnitTraces

# A gate below the first or above the second value is saturated (Karpathy et al., 2015).
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True)
class GateSaturation:
    """How often the gate of each unit is nearly closed or nearly open.

    Attributes:
        low: Fraction of positions with a value below 0.1, (units,).
        high: Fraction of positions with a value above 0.9, (units,).
        time_scale: Forget gates: number of steps after which a cell has lost all but 1/e of its
            value, at the geometric mean of the gate, (units,); infinite if the gate is always 1.
            None for other gates.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    time_scale: NDArray[np.float32] | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the values as plain data; an infinite time scale is None."""
        data: dict[str, object] = {"low": self.low.tolist(), "high": self.high.tolist()}
        if self.time_scale is not None:
            finite = [value if np.isfinite(value) else None for value in self.time_scale.tolist()]
            data["time_scale"] = finite
        return data


def saturation(traces: UnitTraces) -> dict[Track, GateSaturation]:
    """Return the saturation of all gates of the traces; empty for a network without gates."""
    return {
        track: GateSaturation(
            low=(traces.values[track] < LOW).mean(axis=0, dtype=np.float32),
            high=(traces.values[track] > HIGH).mean(axis=0, dtype=np.float32),
            time_scale=time_scales(traces.values[track]) if track.kind == "forget" else None,
        )
        for track in traces.tracks
        if track.kind in GATES
    }


def time_scales(forget: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return -1 / mean ln f of each unit, for forget gates f (positions, units).

    Over many steps a cell is multiplied by the product of its forget gates, so their geometric mean
    is the factor per step.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(forget.astype(np.float64)).mean(axis=0)
        return np.asarray(-1.0 / logs, dtype=np.float32)
