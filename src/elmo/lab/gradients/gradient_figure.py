"""Static picture of the gradient curves."""

from pathlib import Path
from typing import TYPE_CHECKING

from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.installation import install_command
from elmo.lab.gradients.gradient_regions import FACTOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo.lab.gradients.gradient_flow import GradientFlow

# Colors and line styles that color-blind people can tell apart, as on the page.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#b0568a", "#b37a00", "#3d8fc4", "#55606e", "#1c2026")
STYLES = ("-", "--", ":", "-.")
# Curves leave the picture below this norm relative to that at step 0.
SMALLEST = 1e-24


def draw_gradients(flow: "GradientFlow", path: Path) -> Path:
    """Draw the norms of the last layer's hidden state to a PNG file, with one plot per panel.

    Args:
        flow: The measured gradients.
        path: The file.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(f"--png needs matplotlib: {install_command('train')}") from None
    n_rows = (len(flow.panels) + 1) // 2
    figure = Figure(figsize=(11, 3.4 * n_rows), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    plots = figure.subplots(n_rows, 2, sharex=True, squeeze=False).flatten()
    for plot in plots[len(flow.panels) :]:
        plot.set_axis_off()
    for plot, title in zip(plots, flow.panels, strict=False):
        _draw_panel(plot, flow, title)
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")
    return path


def _draw_panel(plot: "Axes", flow: "GradientFlow", title: str) -> None:
    low, high = 0.1 / FACTOR, 10.0
    for number, name in enumerate(flow.panels[title]):
        norms = flow[name].curve().norms
        relative = [norm / norms[0] for norm in norms]
        low, high = min(low, *relative), max(high, *relative)
        plot.plot(
            relative,
            color=COLORS[number % len(COLORS)],
            linestyle=STYLES[number % len(STYLES)],
            label=name,
        )
    low = max(low, SMALLEST) / 2
    high *= 2
    plot.axhspan(low, 1 / FACTOR, color="#4393c3", alpha=0.12, linewidth=0, label="vanished")
    if high > FACTOR:
        plot.axhspan(FACTOR, high, color="#d6604d", alpha=0.12, linewidth=0, label="exploded")
    plot.set_yscale("log")
    plot.set_ylim(low, high)
    plot.set_title(title)
    plot.set_xlabel("steps back (k)")
    # By default only the lowest of several plots with a shared axis shows its numbers.
    plot.tick_params(labelbottom=True)
    plot.set_ylabel("gradient norm relative to k = 0")
    plot.grid(alpha=0.25)
    plot.spines[["top", "right"]].set_visible(False)
    plot.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
