"""The `lm compare` command: trains a grid of models, and compares them in a table and curves."""

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_models import LMCompareConfig, LMTrainConfig, Unit
from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.installation import install_command
from elmo.lab.recurrent_folder import read_model
from elmo.lab.symbol_text import read_training_text
from elmo.lab.train_lm import model_config, train_on_text
from elmo.progress import duration
from elmo.train.devices import check_packages
from elmo.train.report import read_log

logger = logging.getLogger(__name__)

TABLE, FIGURES, CURVES = "comparison.md", "comparison.json", "comparison.png"
# Line style by depth; the color shows the cell.
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class ComparedRun:
    """Result of one model of the grid.

    Attributes:
        name: Name of its folder.
        cell: Cell of the network.
        n_layers: Number of layers.
        hidden_dim: Number of hidden units per layer.
        n_weights: Number of weights.
        nats: Best loss on the held-out text, per symbol.
        bits_per_character: The same in bits per character.
        test_nats: Loss on the test text, or None without one.
        seconds: Training time.
    """

    name: str
    cell: str
    n_layers: int
    hidden_dim: int
    n_weights: int
    nats: float
    bits_per_character: float
    test_nats: float | None
    seconds: float


@dataclass(frozen=True)
class CompareResult:
    """Results of all models of a grid; `str()` returns a table.

    Attributes:
        out: Folder with the runs, the table and the curves.
        runs: The runs, in the order of the grid.
    """

    out: str
    runs: tuple[ComparedRun, ...]

    def __str__(self) -> str:
        """Return the runs as a Markdown table, the best on the held-out text first."""
        names = ["cell", "layers", "units", "weights", "nats", "bits per character", "time"]
        has_test = any(run.test_nats is not None for run in self.runs)
        if has_test:
            names.insert(6, "nats, test")
        rows = [names, ["---"] * len(names)]
        for run in sorted(self.runs, key=lambda run: run.nats):
            row = [run.cell, f"{run.n_layers}", f"{run.hidden_dim}", f"{run.n_weights:,}"]
            row += [f"{run.nats:.4f}", f"{run.bits_per_character:.4f}"]
            if has_test:
                row.append("" if run.test_nats is None else f"{run.test_nats:.4f}")
            rows.append([*row, duration(run.seconds)])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def compare_lm(config: LMCompareConfig) -> CompareResult:
    """Train all models of a grid and compare them on the held-out text."""
    if not config.valid and not config.symbols.valid_fraction:
        raise ConfigError("A comparison needs held-out text. Set --valid or --valid-fraction.")
    if config.run.dry_run:
        raise ConfigError("lm compare has no dry run. Use elmo lm train --dry-run for one model.")
    check_packages(config.run)
    configs = _grid(config)
    text = read_training_text(config)
    for name, run_config in configs.items():
        with _named_errors(name):
            model_config(run_config, text)
    runs = []
    for name, run_config in configs.items():
        result = train_on_text(run_config, text)
        assert result.best is not None
        network = read_model(run_config.out).network
        runs.append(
            ComparedRun(
                name=name,
                cell=run_config.network.cell,
                n_layers=run_config.network.n_layers,
                hidden_dim=run_config.network.hidden_dim,
                n_weights=sum(value.numel() for value in network.parameters()),
                nats=result.best.nats,
                bits_per_character=result.best.bits_per_character,
                test_nats=None if result.test is None else result.test.nats,
                seconds=result.seconds,
            )
        )
    compared = CompareResult(config.out, tuple(runs))
    _write(compared, config.symbols.unit)
    return compared


def _grid(config: LMCompareConfig) -> dict[str, LMTrainConfig]:
    """Return the configs of all runs by name, so that all are validated before the first run."""
    configs = {}
    for cell, n_layers, hidden_dim in itertools.product(config.cells, config.depths, config.widths):
        name = f"{cell}-{n_layers}x{hidden_dim}"
        options = {
            field.name: getattr(config, field.name) for field in dataclasses.fields(LMTrainConfig)
        }
        options["out"] = str(Path(config.out) / name)
        with _named_errors(name):
            options["network"] = dataclasses.replace(
                config.network, cell=cell, n_layers=n_layers, hidden_dim=hidden_dim
            )
            configs[name] = LMTrainConfig(**options)
    return configs


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Add the name of a run to errors of its options."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _write(result: CompareResult, unit: Unit) -> None:
    folder = Path(result.out)
    with atomic_path(folder / TABLE) as partial:
        partial.write_text(f"{result}\n", encoding="utf-8")
    with atomic_path(folder / FIGURES) as partial:
        content = [dataclasses.asdict(run) for run in result.runs]
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    _draw(result, unit)


def _draw(result: CompareResult, unit: Unit) -> None:
    """Draw the held-out losses of all runs over their steps."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("%s needs matplotlib: %s", CURVES, install_command("train"))
        return
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    cells = list(dict.fromkeys(run.cell for run in result.runs))
    widths = list(dict.fromkeys(run.hidden_dim for run in result.runs))
    for run in result.runs:
        points = [
            (event["step"], event["nats"])
            for event in read_log(Path(result.out) / run.name)
            if event["kind"] == "evaluation" and event.get("nats") is not None
        ]
        steps, losses = zip(*points, strict=True)
        axes.plot(
            steps,
            losses,
            STYLES[(run.n_layers - 1) % len(STYLES)],
            color=f"C{cells.index(run.cell)}",
            linewidth=1 + widths.index(run.hidden_dim),
            label=f"{run.name}, {run.nats:.3f}",
        )
    axes.set_xlabel("step")
    axes.set_ylabel(f"nats per {unit.removesuffix('s')} on held-out text")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    # Next to the axes, because the curves can be anywhere in them.
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    with atomic_path(Path(result.out) / CURVES) as partial:
        figure.savefig(partial, format="png")
