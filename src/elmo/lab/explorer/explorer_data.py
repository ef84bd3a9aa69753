"""Data of the explorer page, from the traces of one or two models."""

from collections.abc import Collection, Mapping

import numpy as np

from elmo.errors import ConfigError
from elmo.lab.explorer.stored_units import choose_units, store_track
from elmo.lab.pages.page_data import encode_array
from elmo.lab.units.saturation import GateSaturation, saturation
from elmo.lab.units.traces import Guess, UnitTraces

# Text, predictions and the page itself take the rest of the 8 MB that a page may have.
MAX_BYTES = 6_000_000
_MAX_UINT16 = 65_535


def explorer_data(
    traces: Mapping[str, UnitTraces], *, all_units: bool = False, units: Collection[int] = ()
) -> dict[str, object]:
    """Return the data of a page as plain data with encoded arrays.

    Args:
        traces: Traces by the name of the model: one, or two to compare.
        all_units: Store all units instead of those with the largest variance.
        units: Numbers of units that are stored in any case.
    """
    if len(traces) not in (1, 2):
        raise ConfigError(f"A page shows one or two models (got {len(traces)}).")
    max_bytes = None if all_units else MAX_BYTES / len(traces)
    return {
        "sources": [_source(name, each, max_bytes, units) for name, each in traces.items()],
    }


def _source(
    name: str, traces: UnitTraces, max_bytes: float | None, units: Collection[int]
) -> dict[str, object]:
    stored = {
        track: store_track(traces.values[track], numbers)
        for track, numbers in choose_units(traces, max_bytes, units).items()
    }
    surprisal = traces.surprisal
    gates = saturation(traces)
    return {
        "name": name,
        "unit": traces.unit,
        "note": traces.notes,
        "pieces": list(traces.pieces),
        # Begin of each part in the page, and in the text.
        "parts": [[part.start, int(traces.positions[part.start])] for part in traces.parts],
        # Positions in the page after which a line ends, if no line breaks were read.
        "line_ends": [
            number
            for number, position in enumerate(traces.positions.tolist())
            if position in traces.line_ends
        ],
        "unknown": sorted(traces.unknown),
        "surprisal": None if surprisal is None else encode_array(surprisal.astype(np.float32)),
        "guesses": None if traces.guesses is None else _guesses(traces.guesses),
        "tracks": [
            {
                "layer": track.layer,
                "direction": track.direction,
                "kind": track.kind,
                "n_units": each.n_units,
                "units": encode_array(each.units),
                "values": encode_array(each.values),
                "scale": encode_array(each.scale),
                "color_limit": encode_array(each.color_limit),
                "mean": encode_array(each.mean),
                "spread": encode_array(each.spread),
                "slowness": encode_array(each.slowness),
                "saturation": _saturation(gates[track]) if track in gates else None,
            }
            for track, each in stored.items()
        ],
    }


def _saturation(gate: GateSaturation) -> dict[str, object]:
    """Return the saturation of a gate for all units, also those whose values are not stored."""
    time_scale = gate.time_scale
    return {
        "low": encode_array(gate.low),
        "high": encode_array(gate.high),
        "time_scale": None if time_scale is None else encode_array(time_scale),
    }


def _guesses(guesses: tuple[tuple[Guess, ...], ...]) -> dict[str, object]:
    """Return guesses as numbers of their texts, -1 for none, and probabilities in 1/65535."""
    names = list(dict.fromkeys(text for row in guesses for text, _ in row))
    numbers = {text: number for number, text in enumerate(names)}
    width = max((len(row) for row in guesses), default=0)
    ids = np.full((len(guesses), width), -1, dtype=np.int32)
    shares = np.zeros((len(guesses), width), dtype=np.uint16)
    for position, row in enumerate(guesses):
        for column, (text, probability) in enumerate(row):
            ids[position, column] = numbers[text]
            shares[position, column] = round(min(1.0, probability) * _MAX_UINT16)
    return {"names": names, "ids": encode_array(ids), "probabilities": encode_array(shares)}
