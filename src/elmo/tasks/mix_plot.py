"""The learned mixes of ELMo's layers as a picture: what each layer is worth to a task."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from elmo.files import atomic_path

PICTURE = "mixes.png"


def draw_mixes(
    path: Path, shares: Mapping[str, Sequence[float]], layers: Sequence[int] | None = None
) -> Path | None:
    """Draw a bar for each mix, cut into the shares of the layers.

    Args:
        path: of the picture.
        shares: of the layers, which sum to 1, by the name of the mix; as many in each.
        layers: their numbers; from 0 where None.

    Returns:
        The picture; None where there is nothing to draw, or matplotlib is not installed, which
        the curves of the run have told already.
    """
    if not shares:
        return None
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    # A figure of its own, not pyplot's: nothing is shared with whoever else draws.
    figure = Figure(figsize=(8, 1.2 + 0.4 * len(shares)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    names = list(shares)
    left = [0.0] * len(names)
    for place, values in enumerate(zip(*shares.values(), strict=True)):
        layer = place if layers is None else layers[place]
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
