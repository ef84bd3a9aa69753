"""The `lm compare` command: trains several models, and compares them in a table and curves.

The models are a grid of cells, depths and widths, or several configs, or both.
"""

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_model_commands import LMCompareConfig, LMTrainConfig
from elmo.config.language_models import Cell, RecurrentConfig, Unit
from elmo.errors import ConfigError, TrainingError
from elmo.files import atomic_path
from elmo.installation import install_command
from elmo.lab.loss_comparison import baseline_losses
from elmo.lab.network_text import widths_text
from elmo.lab.recurrent_folder import read_model
from elmo.lab.symbol_text import SymbolText, check_lengths, read_training_text
from elmo.lab.train_lm import model_config, train_on_text
from elmo.progress import duration
from elmo.train.devices import check_packages
from elmo.train.report import read_log

logger = logging.getLogger(__name__)

TABLE, FIGURES, CURVES = "comparison.md", "comparison.json", "comparison.png"
# Line style by depth; the color shows config and cell.
STYLES = ("-", "--", ":", "-.")
# Lists of the grid that are not given, unless several configs are compared.
CELLS: tuple[Cell, ...] = ("rnn", "gru", "lstm")
DEPTHS, WIDTHS = (1, 2, 3), (128,)
# What all configs must have in common. Losses of other symbols cannot be compared.
COMMON = ("text", "out", "valid", "test", "symbols")


@dataclass(frozen=True)
class ComparedRun:
    """Result of one model.

    Attributes:
        name: Name of its folder.
        config: Name of its config; empty unless several are compared.
        cell: Cell of the network.
        n_layers: Number of layers.
        hidden_dim: Number of hidden units of the first layer.
        last_dim: Number of hidden units of the last layer.
        n_weights: Number of weights.
        nats: Best loss on the held-out text, per symbol.
        bits_per_character: The same in bits per character.
        test_nats: Loss on the test text, or None without one.
        seconds: Training time.
    """

    name: str
    config: str
    cell: str
    n_layers: int
    hidden_dim: int
    last_dim: int
    n_weights: int
    nats: float
    bits_per_character: float
    test_nats: float | None
    seconds: float


@dataclass(frozen=True)
class CompareResult:
    """Results of all models; `str()` returns a table.

    Attributes:
        out: Folder with the runs, the table and the curves.
        runs: The finished runs, in the order of configs and grid.
        failures: Error messages of the runs that failed, by name.
    """

    out: str
    runs: tuple[ComparedRun, ...]
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        """Return the runs as a Markdown table, the best on the held-out text first."""
        failed = [f"{name} failed: {message}" for name, message in self.failures.items()]
        return "\n\n".join([self._table(), *failed])

    def _table(self) -> str:
        names = ["cell", "layers", "units", "weights", "nats", "bits per character", "time"]
        has_test = any(run.test_nats is not None for run in self.runs)
        if has_test:
            names.insert(6, "nats, test")
        has_configs = any(run.config for run in self.runs)
        if has_configs:
            names.insert(0, "config")
        rows = [names, ["---"] * len(names)]
        for run in sorted(self.runs, key=lambda run: run.nats):
            row = [run.config] if has_configs else []
            row += [run.cell, f"{run.n_layers}", widths_text((run.hidden_dim, run.last_dim))]
            row += [f"{run.n_weights:,}"]
            row += [f"{run.nats:.4f}", f"{run.bits_per_character:.4f}"]
            if has_test:
                row.append("" if run.test_nats is None else f"{run.test_nats:.4f}")
            rows.append([*row, duration(run.seconds)])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@dataclass(frozen=True)
class _PlannedRun:
    """A model to train, and the name of its config if several are compared."""

    config: LMTrainConfig
    source: str


def compare_lm(configs: Mapping[str, LMCompareConfig]) -> CompareResult:
    """Train several models and compare them on the held-out text.

    A model whose training diverges or does not fit into memory does not prevent the comparison of
    the others.

    Args:
        configs: Configs with the same text, by name of their preset or file. The name of a single
            one is not used.

    Raises:
        TrainingError: No model could be trained.
    """
    first, *others = configs.values()
    for name, other in zip(list(configs)[1:], others, strict=True):
        _check_common(first, other, name)
    if not first.valid and not first.symbols.valid_fraction:
        raise ConfigError("A comparison needs held-out text. Set --valid or --valid-fraction.")
    for config in configs.values():
        if config.run.dry_run:
            raise ConfigError(
                "lm compare has no dry run. Use elmo lm train --dry-run for one model."
            )
        check_packages(config.run)
    planned = _planned_runs(configs)
    text = read_training_text(first)
    for name, run in planned.items():
        with _named_errors(name):
            check_lengths(text.parts, run.config)
            model_config(run.config, text)
    compared = _train_all(first.out, planned, text)
    _write(compared, first.symbols.unit)
    return compared


def _check_common(first: LMCompareConfig, other: LMCompareConfig, name: str) -> None:
    """Raise an error if two configs differ in the text or its symbols."""
    for field in COMMON:
        if getattr(first, field) != getattr(other, field):
            raise ConfigError(
                f"{field} of {name} differs from that of the first config. Set its options on the "
                "command line, or compare configs with the same text and symbols."
            )


def _train_all(out: str, planned: Mapping[str, _PlannedRun], text: SymbolText) -> CompareResult:
    """Train all models, and raise an error if all of them fail."""
    ngrams = baseline_losses(text)
    runs: list[ComparedRun] = []
    failures: dict[str, str] = {}
    for name, run in planned.items():
        try:
            runs.append(_train(name, run, text, ngrams))
        except TrainingError as error:
            logger.warning("%s failed: %s", name, error)
            failures[name] = str(error)
    if not runs:
        name, message = next(iter(failures.items()))
        raise TrainingError(f"No model could be trained. {name}: {message}")
    return CompareResult(out, tuple(runs), failures)


def _train(name: str, run: _PlannedRun, text: SymbolText, ngrams: tuple[float, ...]) -> ComparedRun:
    """Train a model, unless it is finished, and return its result."""
    result = train_on_text(run.config, text, ngrams)
    assert result.best is not None
    network = read_model(run.config.out).network
    shape = run.config.network
    return ComparedRun(
        name=name,
        config=run.source,
        cell=shape.cell,
        n_layers=shape.n_layers,
        hidden_dim=shape.layer_dims[0][0],
        last_dim=shape.layer_dims[-1][0],
        n_weights=sum(value.numel() for value in network.parameters()),
        nats=result.best.nats,
        bits_per_character=result.best.bits_per_character,
        test_nats=None if result.test is None else result.test.nats,
        seconds=result.seconds,
    )


def _planned_runs(configs: Mapping[str, LMCompareConfig]) -> dict[str, _PlannedRun]:
    """Return all runs by name, so that all are validated before the first is trained."""
    planned: dict[str, _PlannedRun] = {}
    for source, config in configs.items():
        shape, has_many = config.network, len(configs) > 1
        stem = Path(source).stem if has_many else ""
        cells = config.cells or ((shape.cell,) if has_many else CELLS)
        depths = config.depths or ((shape.n_layers,) if has_many else DEPTHS)
        widths = config.widths or ((shape.hidden_dim,) if has_many else WIDTHS)
        has_grid = not has_many or bool(config.cells or config.depths or config.widths)
        for cell, n_layers, hidden_dim in itertools.product(cells, depths, widths):
            size = f"{cell}-{n_layers}x{hidden_dim}" if has_grid else ""
            name = "-".join(filter(None, (stem, size)))
            if name in planned:
                raise ConfigError(f"Two configs are named {stem}. Rename one of the files.")
            with _named_errors(name):
                options = {
                    field.name: getattr(shape, field.name)
                    for field in dataclasses.fields(RecurrentConfig)
                }
                options |= {"cell": cell, "n_layers": n_layers, "hidden_dim": hidden_dim}
                network = RecurrentConfig(**options)
                planned[name] = _PlannedRun(_training_config(config, name, network), stem)
    return planned


def _training_config(config: LMCompareConfig, name: str, network: RecurrentConfig) -> LMTrainConfig:
    """Return the config of one run."""
    options = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(LMTrainConfig)
    }
    out = str(Path(config.out) / name)
    return LMTrainConfig(**{**options, "out": out, "network": network})


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
    colors = list(dict.fromkeys((run.config, run.cell) for run in result.runs))
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
            color=f"C{colors.index((run.config, run.cell))}",
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
