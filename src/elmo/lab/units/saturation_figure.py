"""Figure of saturated gates, as in Karpathy et al. (2015): one point per unit."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.installation import install_command
from elmo.lab.units.saturation import HIGH, LOW, GateSaturation, saturation
from elmo.lab.units.traces import Track, UnitTraces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
NO_GATES = (
    "No gates were read. A simple RNN has none. For other networks, add the gates to kinds, "
    "such as input, forget and output."
)
# Points are blue and half transparent, so that a crowd of units is darker than a single one.
COLOR, ALPHA, SIZE = "#0072b2", 0.45, 9
PANEL = 2.6
N_BINS = 30

Row = list[tuple[Track, GateSaturation]]


def draw_saturation(traces: UnitTraces | Mapping[str, UnitTraces], path: str | Path) -> Path:
    """Draw how often each gate is nearly closed and nearly open, with one plot per layer and gate.

    Forget gates have a second plot with the time scales of their units.

    Args:
        traces: Traces with gates, or traces by the name of their model.
        path: PNG or SVG file to write.

    Raises:
        ConfigError: There are no gates, the file has another format, or Matplotlib is missing.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"The figure must be a file with .png or .svg (got {path.name!r}).")
    named = {"": traces} if isinstance(traces, UnitTraces) else traces
    rows = [(name, each.unit, row) for name, each in named.items() for row in _rows(each)]
    if not rows:
        raise ConfigError(NO_GATES)
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(f"A figure needs matplotlib: {install_command('train')}") from None
    has_time = any(gate.time_scale is not None for _, _, row in rows for _, gate in row)
    n_columns = max(len(row) for _, _, row in rows) + has_time
    figure = Figure(figsize=(PANEL * n_columns, PANEL * len(rows)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    plots = figure.subplots(len(rows), n_columns, squeeze=False)
    for (name, unit, row), line in zip(rows, plots, strict=True):
        for plot in line[len(row) :]:
            plot.set_axis_off()
        for (track, gate), plot in zip(row, line, strict=False):
            title = f"{_place(track)}, {track.kind} gate"
            _draw_gate(plot, gate, f"{name}\n{title}" if len(named) > 1 else title)
            if gate.time_scale is not None:
                _draw_time_scales(line[-1], gate.time_scale, unit)
    # Text as text: the file is smaller, and the same on every machine.
    with atomic_path(path) as partial, rc_context({"svg.fonttype": "none", "svg.hashsalt": "elmo"}):
        name = path.suffix.lower().removeprefix(".")
        figure.savefig(partial, format=name, metadata={"Date": None} if name == "svg" else None)
    return path


def write_saturation(traces: Mapping[str, UnitTraces], path: Path) -> Path:
    """Draw the figure, or write its numbers if the file is a JSON file.

    Args:
        traces: Traces by the name of their model.
        path: PNG, SVG or JSON file.

    Raises:
        ConfigError: There are no gates, or Matplotlib is missing.
    """
    if path.suffix.lower() != ".json":
        return draw_saturation(traces, path)
    models = [
        {
            "model": name,
            "unit": each.unit,
            "positions": len(each),
            "gates": [
                {**asdict(track), **gate.to_dict()} for track, gate in saturation(each).items()
            ],
        }
        for name, each in traces.items()
    ]
    if not any(model["gates"] for model in models):
        raise ConfigError(NO_GATES)
    with atomic_path(path) as partial:
        partial.write_text(json.dumps({"models": models}), encoding="utf-8")
    return path


def _rows(traces: UnitTraces) -> list[Row]:
    """Return the gates of each layer and direction."""
    gates = saturation(traces).items()
    return [
        list(row) for _, row in groupby(gates, key=lambda item: (item[0].layer, item[0].direction))
    ]


def _place(track: Track) -> str:
    direction = "" if track.direction == "forward" else " backward"
    return f"layer {track.layer}{direction}"


def _draw_gate(plot: "Axes", gate: GateSaturation, title: str) -> None:
    plot.scatter(gate.low, gate.high, s=SIZE, color=COLOR, alpha=ALPHA, linewidths=0)
    # The two fractions cannot be more than 1 together.
    plot.plot([0, 1], [1, 0], color="#9aa4b1", linewidth=0.8)
    plot.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    plot.set_xlabel(f"fraction below {LOW}", fontsize="small")
    plot.set_ylabel(f"fraction above {HIGH}", fontsize="small")
    _style(plot, title)


def _draw_time_scales(plot: "Axes", time_scale: NDArray[np.float32], unit: str) -> None:
    plot.set_axis_on()
    finite = time_scale[np.isfinite(time_scale) & (time_scale > 0)]
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        bins = np.geomspace(low * 0.99, max(high, low * 1.1) * 1.01, N_BINS)
        plot.hist(finite, bins=bins.tolist(), color=COLOR, alpha=0.8)
        plot.set_xscale("log")
        plot.axvline(float(np.median(finite)), color="#1c2026", linewidth=1, linestyle="--")
        _style(plot, f"time scales, median {np.median(finite):.3g}")
    plot.set_xlabel(unit, fontsize="small")
    plot.set_ylabel("units", fontsize="small")


def _style(plot: "Axes", title: str) -> None:
    plot.set_title(title, fontsize="medium")
    plot.tick_params(labelsize="small")
    plot.spines[["top", "right"]].set_visible(False)
