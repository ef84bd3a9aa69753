"""Plots the training loss and the held-out metrics of a run.

For bidirectional language models the metrics are perplexities, for recurrent language models nats;
for other models, all logged metrics are plotted.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo.files import atomic_path
from elmo.installation import install_command
from elmo.train.report import read_log

FILE_NAME = "curves.png"
# Time constant of the running mean, as a fraction of all logged steps; a single loss is noisy.
SMOOTHING = 0.02
# Perplexities of a language model's evaluations, and their colors.
PERPLEXITIES = {"forward": "tab:blue", "backward": "tab:orange", "mean": "tab:gray"}
# Loss of a recurrent language model, which the training loss can be compared with.
NATS = "nats"
# Fields of an evaluation event that are not metrics to draw.
NON_SCORES = frozenset(("kind", "step", "time", "loss"))

logger = logging.getLogger(__name__)

Points = list[tuple[int, float]]


def draw_curves(folder: Path, loss_unit: str) -> Path | None:
    """Plot the events in `log.jsonl` to `curves.png`; return None without matplotlib.

    The left panel shows the training loss, in the given unit. The right panel shows the
    perplexities `forward`, `backward` and `mean` or the `nats` from the evaluations or, for other
    models, all metrics except `loss`.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("%s needs matplotlib: %s", FILE_NAME, install_command("train"))
        return None
    losses, metrics = _read(folder)
    # A log without evaluations is drawn as that of a language model.
    is_language_model = not metrics or any(name in PERPLEXITIES for name in metrics)
    # Not pyplot, whose figures are global state shared with the caller.
    figure = Figure(figsize=(10, 4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_loss(left, losses, loss_unit)
    if NATS in metrics:
        _draw_nats(right, metrics[NATS], loss_unit)
    elif is_language_model:
        _draw_perplexity(right, {n: points for n, points in metrics.items() if n in PERPLEXITIES})
    else:
        _draw_scores(right, metrics)
    path = folder / FILE_NAME
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")
    return path


def _read(folder: Path) -> tuple[Points, dict[str, Points]]:
    """Return the training losses, and the evaluation metrics by name."""
    losses: Points = []
    metrics: dict[str, Points] = defaultdict(list)
    for event in read_log(folder):
        step = event["step"]
        assert isinstance(step, int)
        for name, value in event.items():
            if not isinstance(value, int | float):  # NaN and infinity are null
                continue
            if event["kind"] == "step" and name == "loss":
                losses.append((step, value))
            elif event["kind"] == "evaluation" and name not in NON_SCORES:
                metrics[name].append((step, value))
    return losses, metrics


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
        all_values = [value for points in perplexities.values() for _, value in points]
        # The first evaluations can be far from the rest; otherwise a linear axis is clearer.
        if max(all_values) > 3 * min(all_values):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,g}")
    _finish(axes)


def _draw_nats(axes: Any, points: Points, unit: str) -> None:
    steps, values = zip(*points, strict=True)
    axes.set_title("loss on held-out text")
    axes.set_ylabel(unit)
    axes.plot(steps, values, "o-", markersize=3, label=f"best {min(values):.4f}")
    axes.legend(frameon=False)
    _finish(axes)


def _draw_scores(axes: Any, scores: dict[str, Points]) -> None:
    axes.set_title("metrics on held-out examples")
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
    """Return the exponential moving average of the values, with bias correction as in Adam."""
    keep = 1 - 1 / max(1.0, SMOOTHING * len(values))
    mean, weight, smooth = 0.0, 0.0, []
    for value in values:
        mean = keep * mean + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        smooth.append(mean / weight)
    return smooth
