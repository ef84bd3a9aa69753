"""Plots the learned layer mixes: the share of each ELMo layer."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from elmo.files import atomic_path

PLOT = "mixes.png"


def draw_mixes(
    path: Path, shares: Mapping[str, Sequence[float]], layers: Sequence[int] | None = None
) -> Path | None:
    """Draw a bar chart with one stacked bar per mix, by name; the shares of its layers sum to 1.

    Returns None if there are no mixes or if matplotlib is not installed. There is no warning about
    matplotlib here, because drawing the training curves has already given one.
    """
    if not shares:
        return None
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    # Do not use pyplot, because its figures are global state shared with the caller.
    figure = Figure(figsize=(8, 1.2 + 0.4 * len(shares)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    names = list(shares)
    left = [0.0] * len(names)
    for index, values in enumerate(zip(*shares.values(), strict=True)):
        layer = index if layers is None else layers[index]
        bars = axes.barh(names, values, left=left, label=f"layer {layer}")
        axes.bar_label(bars, fmt="{:.2f}", label_type="center", color="white", fontsize=8)
        left = [start + value for start, value in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of each layer in the learned mix")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")
    return path
