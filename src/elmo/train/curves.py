"""The course of a run as a picture: training loss, and what was found on what was held out.

Of a language model that is its perplexity, of anything else whatever figures were logged.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo.files import atomic_path
from elmo.train.report import read_log

PICTURE = "curves.png"
# Points of a running mean, as a share of all: a batch's loss says little.
SMOOTHING = 0.02
# Names of a language model's evaluations to draw, and their colours.
PERPLEXITIES = {"forward": "tab:blue", "backward": "tab:orange", "mean": "tab:gray"}
# Values of other evaluations that are no scores.
NO_SCORES = frozenset(("kind", "step", "time", "loss"))

logger = logging.getLogger(__name__)

Points = list[tuple[int, float]]


def draw_curves(folder: Path) -> Path | None:
    """Draw `curves.png` from `log.jsonl`.

    Of the steps the value `loss` is drawn, of the evaluations `forward`, `backward` and `mean`,
    which are perplexities; where there are none of these, everything but `loss`.

    Args:
        folder: the training folder.

    Returns:
        The picture; None, with a warning, where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("%s is not drawn: pip install 'elmo-torch[train]'", PICTURE)
        return None
    losses, found = _read(folder)
    # A log without evaluations is drawn as a language model's.
    is_language = not found or any(name in PERPLEXITIES for name in found)
    # A figure of its own, not pyplot's: nothing is shared with whoever else draws.
    figure = Figure(figsize=(10, 4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_loss(left, losses, "nats a token, both directions" if is_language else "loss")
    if is_language:
        _draw_perplexity(right, {n: points for n, points in found.items() if n in PERPLEXITIES})
    else:
        _draw_scores(right, found)
    path = folder / PICTURE
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")
    return path


def _read(folder: Path) -> tuple[Points, dict[str, Points]]:
    """Give the training loss, and the figures of all evaluations by name."""
    losses: Points = []
    found: dict[str, Points] = defaultdict(list)
    for event in read_log(folder):
        for name, value in event.items():
            if value is None:  # the log's way to say NaN
                continue
            if event["kind"] == "step" and name == "loss":
                losses.append((event["step"], value))
            elif event["kind"] == "evaluation" and name not in NO_SCORES:
                found[name].append((event["step"], value))
    return losses, found


def _draw_loss(axes: Any, losses: Points, unit: str) -> None:
    axes.set_title("training loss")
    axes.set_ylabel(unit)
    if losses:
        steps, values = zip(*losses, strict=True)
        axes.plot(steps, values, color="tab:blue", alpha=0.3, linewidth=0.8)
        axes.plot(steps, running_mean(values), color="tab:blue", linewidth=1.5)
    _finish(axes)


def _draw_perplexity(axes: Any, perplexities: dict[str, Points]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_title("perplexity on held-out text, full softmax")
    axes.set_ylabel("perplexity")
    for name, points in perplexities.items():
        steps, values = zip(*points, strict=True)
        label = f"{name}, best {min(values):,.4g}"
        axes.plot(steps, values, "o-", markersize=3, color=PERPLEXITIES[name], label=label)
    if perplexities:
        axes.legend(frameon=False)
        found = [value for points in perplexities.values() for _, value in points]
        # The first evaluations are far from the rest; else a plain axis reads better.
        if max(found) > 3 * min(found):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")
    _finish(axes)


def _draw_scores(axes: Any, scores: dict[str, Points]) -> None:
    axes.set_title("on held-out examples")
    for name, points in scores.items():
        steps, values = zip(*points, strict=True)
        label = f"{name}, highest {max(values):.4g}"
        axes.plot(steps, values, "o-", markersize=3, label=label)
    axes.legend(frameon=False)
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.set_xlabel("step")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def running_mean(values: Sequence[float]) -> list[float]:
    """Smooth by an exponential mean that starts unbiased, as Adam's does."""
    keep = 1 - 1 / max(1.0, SMOOTHING * len(values))
    mean, weight, smooth = 0.0, 0.0, []
    for value in values:
        mean = keep * mean + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        smooth.append(mean / weight)
    return smooth
