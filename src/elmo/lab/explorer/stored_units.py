"""Choice of the units that a page stores, and their values as int8."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.lab.units.traces import Track, UnitTraces

# Base64 needs four bytes for three.
BYTES_PER_VALUE = 4 / 3
_MAX_INT8 = 127


@dataclass(frozen=True)
class StoredTrack:
    """Values of some units of a track.

    Attributes:
        units: Numbers of the units, ascending.
        n_units: Number of units that the network has.
        values: Values as integers from -127 to 127, (units, positions).
        scale: Value of 127 for each unit, the largest absolute value; 0 if all values are 0.
        color_limit: End of the color scale of each unit: 99% of its absolute values are below, so
            that single large values do not make all others pale.
        mean: Mean of each unit.
        spread: Standard deviation of each unit.
        slowness: Correlation of each unit with itself one position later; 0 for a constant unit.
    """

    units: NDArray[np.int32]
    n_units: int
    values: NDArray[np.int8]
    scale: NDArray[np.float32]
    color_limit: NDArray[np.float32]
    mean: NDArray[np.float32]
    spread: NDArray[np.float32]
    slowness: NDArray[np.float32]


def choose_units(
    traces: UnitTraces, max_bytes: float | None, required: Collection[int] = ()
) -> dict[Track, NDArray[np.int32]]:
    """Return the numbers of the units to store, ascending, for each track.

    The kinds of one layer and direction store the same units, so that the gates of a unit can be
    compared: those with the largest variance in the first kind (hidden states, if the traces have
    them). Projected hidden states are other units than the cells and are chosen on their own.

    Args:
        traces: Traces of all units.
        max_bytes: Maximum number of bytes in base64. At least one unit of each track is stored.
            None: all units.
        required: Numbers of units that are stored in any case, in each track that has them.
    """
    groups: dict[tuple[int, str, int], list[Track]] = defaultdict(list)
    for track in traces.tracks:
        groups[track.layer, track.direction, traces.values[track].shape[1]].append(track)
    room = None
    if max_bytes is not None:
        room = int(max_bytes / BYTES_PER_VALUE / max(len(traces), 1))
    n_tracks = len(traces.values)
    chosen: dict[Track, NDArray[np.int32]] = {}
    # Groups with few units go first: the room that they leave is for the others.
    for (_, _, width), tracks in sorted(groups.items(), key=lambda item: item[0][2]):
        count = width
        if room is not None:
            count = min(width, max(1, room // n_tracks))
            room -= count * len(tracks)
            n_tracks -= len(tracks)
        variance = traces.values[tracks[0]].var(axis=0)
        units = np.argsort(-variance, kind="stable")[:count]
        kept = [unit for unit in required if 0 <= unit < width]
        numbers = np.union1d(units, np.array(kept, dtype=np.int64)).astype(np.int32)
        chosen |= dict.fromkeys(tracks, numbers)
    return {track: chosen[track] for track in traces.tracks}


def store_track(values: NDArray[np.float32], units: NDArray[np.int32]) -> StoredTrack:
    """Store the values of some units.

    Args:
        values: Values of all units, (positions, units).
        units: Numbers of the units to store.

    Raises:
        InputError: Values are infinite or NaN.
    """
    rows = np.ascontiguousarray(values[:, units].T, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise InputError(
            "The values of the network are infinite or NaN. Its weights are probably damaged, or "
            "its training diverged."
        )
    scale = np.abs(rows).max(axis=1)
    divisor = np.where(scale > 0, scale, 1)[:, None]
    centered = rows - rows.mean(axis=1, keepdims=True)
    power = (centered**2).sum(axis=1)
    lagged = (centered[:, 1:] * centered[:, :-1]).sum(axis=1)
    return StoredTrack(
        units,
        values.shape[1],
        np.rint(rows / divisor * _MAX_INT8).astype(np.int8),
        scale,
        np.quantile(np.abs(rows), 0.99, axis=1).astype(np.float32),
        rows.mean(axis=1),
        rows.std(axis=1),
        np.divide(lagged, power, out=np.zeros_like(power), where=power > 1e-9 * rows.shape[1]),
    )
