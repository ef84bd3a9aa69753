r"""Scaling study for the base models: train sizes on several budgets and extrapolate their losses.

    elmo prepare TEXT --out corpus --tokenizer english --sentences split --vocab-size 100000
    python runs/scaling_study.py train --data corpus --out cells --results results.jsonl
    python runs/scaling_study.py table --results results.jsonl

`train` trains every cell of a grid of model sizes and token budgets, one after another, and appends
one JSON line per cell. A budget of one size alone is one cell: `--cell-dims 4096 --tokens 120e6`.
Finished cells are skipped, so rerun the same command to continue after an interruption. Prepare the
corpus with `--shard-words` above its number of words: sentences are shuffled within shards, and a
budget below one epoch should sample the whole text.

With one size, several learning rates are tried, and `rates` prints the loss by rate:

    python runs/scaling_study.py train --data corpus --out cells --results rates.jsonl \
        --cell-dims 2048 --tokens 30e6 --optimizer muon --learning-rates 4e-3 8e-3
    python runs/scaling_study.py rates --results rates.jsonl

`table` prints the grid, fits `loss = E + B * tokens^-beta` with one E and B per size and one shared
beta, and predicts the perplexity after a training time on the same device. The intervals are those
of repeated fits to losses with added noise. They do not cover a change of schedule, text or
learning rate, nor a form other than this one.
"""

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.config import (
    EvaluateConfig,
    InputConfig,
    LossConfig,
    LSTMConfig,
    OptimizerConfig,
    PretrainConfig,
    RunConfig,
    StreamConfig,
)
from elmo.errors import TrainingError
from elmo.evaluate import evaluate
from elmo.train import pretrain

Record = dict[str, Any]
Losses = NDArray[np.float64]

GRID = "grid"
# The published filters without the widest, which hold half of the weights of the character CNN.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512))
# Settings of the first cells, which their records do not contain.
FIRST_SETTINGS: Record = {"optimizer": "adamw", "filters": [list(pair) for pair in FILTERS]}
WARMUP_FRACTION, MAX_WARMUP = 0.15, 300
# Losses are fitted over tokens in this unit, which keeps the numbers near 1.
UNIT = 120e6
EXPONENTS = np.linspace(0.1, 2.0, 381)
N_REPEATS = 1000


@dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        cell_dim: Cell size of the LSTM layers.
        tokens: Training tokens.
        learning_rate: Peak learning rate.
    """

    cell_dim: int
    tokens: float
    learning_rate: float

    @property
    def name(self) -> str:
        """Part of the name of the training folder."""
        return f"{self.cell_dim}-{self.tokens / 1e6:g}M-{self.learning_rate:g}"


# ------------------------------------------------------------------------------------------- train


def run_config(cell: Cell, args: argparse.Namespace) -> PretrainConfig:
    """Return the config of a cell, whose learning-rate schedule ends with the budget.

    Args:
        cell: Size, budget and learning rate.
        args: Options shared by all cells.
    """
    n_steps = max(1, round(cell.tokens / (args.batch_size * args.unroll)))
    return PretrainConfig(
        data=(args.data,),
        out=str(Path(args.out) / f"{args.optimizer}-{cell.name}-{args.schedule}-{args.seed}"),
        input=InputConfig(filters=tuple(args.filters), n_highway=1),
        lstm=LSTMConfig(cell_dim=cell.cell_dim, projection_dim=args.projection_dim),
        # Each sentence starts from the zero state, as in `encode`.
        stream=StreamConfig(batch_size=args.batch_size, unroll=args.unroll, reset=1.0),
        loss=LossConfig(softmax="sampled", n_samples=args.n_samples),
        optimizer=OptimizerConfig(
            optimizer=args.optimizer,
            learning_rate=cell.learning_rate,
            warmup_steps=min(MAX_WARMUP, max(1, round(WARMUP_FRACTION * n_steps))),
            schedule=args.schedule,
            weight_decay=0.01,
            beta2=0.95,
            clip_norm=0.25,
        ),
        run=RunConfig(
            # The number of steps is the limit, however often they repeat the text.
            epochs=1e6,
            max_steps=n_steps,
            evaluate_every=n_steps,
            checkpoint_every=n_steps,
            log_every=min(50, n_steps),
            precision=args.precision,
            seed=args.seed,
        ),
    )


def cell_settings(cell: Cell, args: argparse.Namespace) -> Record:
    """Return the part of a cell's record that is known before training.

    Args:
        cell: Size, budget and learning rate.
        args: Options shared by all cells.
    """
    config = run_config(cell, args)
    assert config.run.max_steps is not None
    return {
        "kind": GRID,
        "cell_dim": cell.cell_dim,
        "projection_dim": args.projection_dim,
        "filters": [list(pair) for pair in args.filters],
        "optimizer": args.optimizer,
        "learning_rate": cell.learning_rate,
        "seed": args.seed,
        "schedule": config.optimizer.schedule,
        "warmup_steps": config.optimizer.warmup_steps,
        "steps": config.run.max_steps,
        "tokens": config.run.max_steps * args.batch_size * args.unroll,
    }


def train_cell(cell: Cell, args: argparse.Namespace) -> Record:
    """Train a cell and return its record, with the error if training diverged.

    Args:
        cell: Size, budget and learning rate.
        args: Options shared by all cells.
    """
    config = run_config(cell, args)
    record = cell_settings(cell, args)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        result = pretrain(config)
    except TrainingError as error:
        return record | {"error": str(error)}
    if result.best is None:
        raise SystemExit(
            f"{args.data} has no held-out text. Prepare it with --valid or --held-out."
        )
    record |= {
        "n_bilm": result.plan.n_bilm,
        "n_softmax": result.plan.n_softmax,
        "valid_loss": result.best.loss,
        "valid_forward": result.best.forward,
        "valid_backward": result.best.backward,
        "tokens_per_second": tokens_per_second(Path(config.out)),
        "seconds": result.seconds,
    }
    if torch.cuda.is_available():
        record["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
    if args.lm1b:
        found = evaluate(
            EvaluateConfig((args.lm1b,), config.out, batch_size=512, pretokenized=True)
        )
        record["lm1b_perplexity"] = found.perplexity.mean
    return record


def tokens_per_second(folder: Path) -> float:
    """Return the median speed of a run, without its first log lines.

    Args:
        folder: The training folder.
    """
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    speeds = [event["tokens_per_second"] for event in events if event["kind"] == "step"]
    return float(statistics.median(speeds[2:] or speeds))


def train(args: argparse.Namespace) -> None:
    """Train the cells that have no record yet, small budgets first.

    Args:
        args: Command-line options.
    """
    results = Path(args.results)
    known = read_records(results) if results.exists() else []
    for cell in cells(args):
        settings = cell_settings(cell, args)
        if any(settings.items() <= record.items() for record in known):
            continue
        record = train_cell(cell, args)
        with results.open("a", encoding="ascii") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells of the grid.

    Args:
        args: Command-line options.
    """
    cell_dims, rates = args.cell_dims, args.learning_rates
    if len(cell_dims) == 1:
        cell_dims = cell_dims * len(rates)
    if len(cell_dims) != len(rates):
        raise SystemExit(
            f"--learning-rates has {len(rates)} values, --cell-dims has {len(cell_dims)}. Give one "
            "learning rate per size, or one size."
        )
    for tokens in args.tokens:
        for cell_dim, rate in zip(cell_dims, rates, strict=True):
            yield Cell(cell_dim, tokens, rate)


# ------------------------------------------------------------------------------------------- table


def read_records(path: Path) -> list[Record]:
    """Return the records of finished and diverged grid cells.

    Args:
        path: JSON lines; records of other kinds are skipped.
    """
    records: list[Record] = [json.loads(line) for line in path.read_text().splitlines()]
    return [FIRST_SETTINGS | record for record in records if record["kind"] == GRID]


@dataclass(frozen=True)
class Fit:
    """Losses of several sizes as `limits + scales * (tokens / UNIT)^-exponent`.

    Attributes:
        limits: Loss of each size after unlimited training, (sizes,).
        scales: Distance from the limit after UNIT tokens, (sizes,).
        exponent: The exponent, shared by all sizes.
        error: Root mean square of the residuals.
    """

    limits: Losses
    scales: Losses
    exponent: float
    error: float

    def predict(self, tokens: Losses) -> Losses:
        """Return the loss of each size.

        Args:
            tokens: Training tokens of each size, (sizes,).

        Returns:
            Losses in nats, (sizes,).
        """
        predicted: Losses = self.limits + self.scales * (tokens / UNIT) ** -self.exponent
        return predicted


def fit(tokens: Losses, losses: Losses) -> Fit:
    """Fit the losses by least squares, the exponent by trying every value of a grid.

    Args:
        tokens: Training tokens of the budgets, (budgets,).
        losses: Losses in nats, (sizes, budgets).

    Returns:
        The fit with the smallest squared error.
    """
    best: tuple[float, Losses, float] | None = None
    for exponent in EXPONENTS.tolist():
        terms = np.stack([np.ones(len(tokens)), (tokens / UNIT) ** -exponent], axis=1)
        solution = np.linalg.lstsq(terms, losses.T, rcond=None)[0]
        squares = float(((terms @ solution - losses.T) ** 2).sum())
        if best is None or squares < best[0]:
            best = squares, solution, exponent
    assert best is not None
    squares, solution, exponent = best
    return Fit(solution[0], solution[1], exponent, math.sqrt(squares / losses.size))


def predictions(
    tokens: Losses, losses: Losses, budgets: Losses, noise: float
) -> tuple[Losses, Losses]:
    """Predict the perplexity of each size after its budget, with an interval of 90 %.

    Args:
        tokens: Training tokens of the fitted budgets, (budgets,).
        losses: Losses in nats, (sizes, budgets).
        budgets: Training tokens to predict for, (sizes,).
        noise: Standard deviation of a loss between seeds, in nats.

    Returns:
        Perplexities, (sizes,), and their 5 and 95 % quantiles, (2, sizes).
    """
    generator = np.random.default_rng(0)
    repeats = [
        fit(tokens, losses + generator.normal(0.0, noise, losses.shape)).predict(budgets)
        for _ in range(N_REPEATS)
    ]
    central = np.exp(fit(tokens, losses).predict(budgets))
    return central, np.exp(np.quantile(repeats, [0.05, 0.95], axis=0))


def print_table(args: argparse.Namespace) -> None:
    """Print the grid, the fit and the predictions.

    Args:
        args: Command-line options.
    """
    records = [
        record
        for record in read_records(Path(args.results))
        if "error" not in record
        and (record["optimizer"], record["schedule"]) == (args.optimizer, args.schedule)
    ]
    # The best run of each size and budget is used.
    records.sort(key=lambda record: -record["valid_loss"])
    sizes = sorted({(record["cell_dim"], record["projection_dim"]) for record in records})
    tokens = np.array(sorted({float(record["tokens"]) for record in records}))
    table = {(r["cell_dim"], r["projection_dim"], r["tokens"]): r for r in records}
    rows = [[table.get((*size, count)) for count in tokens] for size in sizes]
    print(row("size", *(f"{count / 1e6:.0f} M tokens" for count in tokens), "tokens/s"))
    print(row(*["---"] * (len(tokens) + 2)))
    for (cell_dim, projection_dim), found in zip(sizes, rows, strict=True):
        values = [f"{math.exp(r['valid_loss']):.2f}" if r else "" for r in found]
        print(row(f"{cell_dim}/{projection_dim}", *values, f"{speed(found):,.0f}"))
    complete = [[r["valid_loss"] for r in found if r] for found in rows]
    if len(tokens) < 3 or any(len(losses) < len(tokens) for losses in complete):
        print("\nNo fit: every size needs the same budgets, three or more.")
        return
    losses = np.array(complete)
    found_fit = fit(tokens, losses)
    print(f"\nbeta {found_fit.exponent:.3f}, residual {found_fit.error:.4f} nats\n")
    print(row("size", "limit", *(f"{minutes:g} minutes" for minutes in args.minutes)))
    print(row(*["---"] * (2 + len(args.minutes))))
    speeds = np.array([speed(found) for found in rows])
    columns = [
        predictions(tokens, losses, 60 * minutes * speeds, args.noise) for minutes in args.minutes
    ]
    for number, (cell_dim, projection_dim) in enumerate(sizes):
        values = [
            f"{central[number]:.1f} ({low[number]:.1f} to {high[number]:.1f})"
            for central, (low, high) in columns
        ]
        limit = math.exp(found_fit.limits[number])
        print(row(f"{cell_dim}/{projection_dim}", f"{limit:.1f}", *values))


def print_rates(args: argparse.Namespace) -> None:
    """Print the mean held-out loss of the seeds by learning rate, in a row for all other settings.

    Args:
        args: Command-line options.
    """
    records = read_records(Path(args.results))
    rates = sorted({record["learning_rate"] for record in records})
    groups: dict[tuple[str, ...], dict[float, list[Record]]] = {}
    for record in records:
        key = (
            f"{record['cell_dim']}/{record['projection_dim']}",
            " ".join(f"{width}:{count}" for width, count in record["filters"]),
            f"{record['tokens']:,}",
            record["schedule"],
            record["optimizer"],
        )
        groups.setdefault(key, {}).setdefault(record["learning_rate"], []).append(record)
    names = ("size", "filters", "tokens", "schedule", "optimizer")
    print(row(*names, *(f"{rate:g}" for rate in rates), "tokens/s"))
    print(row(*["---"] * (len(names) + len(rates) + 1)))
    for key, by_rate in groups.items():
        values = [mean_loss(by_rate.get(rate, [])) for rate in rates]
        speeds = [
            r["tokens_per_second"] for found in by_rate.values() for r in found if "error" not in r
        ]
        speed_text = f"{statistics.median(speeds):,.0f}" if speeds else ""
        print(row(*key, *values, speed_text))


def mean_loss(records: Sequence[Record]) -> str:
    """Return the mean held-out loss of repeated runs as text, with the number of runs.

    Args:
        records: Records with equal settings, except for the seed; empty if there are none.
    """
    if any("error" in record for record in records):
        return "diverged"
    if not records:
        return ""
    mean = statistics.mean(record["valid_loss"] for record in records)
    return f"{mean:.4f} ({len(records)})"


def speed(records: Sequence[Record | None]) -> float:
    """Return the training speed of a size, from its longest run.

    Args:
        records: Records of the size by rising budget; None for a missing one.
    """
    return float(next(r["tokens_per_second"] for r in reversed(records) if r))


def row(*values: str) -> str:
    """Return a row of a Markdown table.

    Args:
        *values: The columns.
    """
    return f"| {' | '.join(values)} |"


# ------------------------------------------------------------------------------------ command line


def filters(text: str) -> tuple[int, int]:
    """Return the width and the number of filters of an option such as "3:64".

    Args:
        text: The two numbers.
    """
    width, count = map(int, text.split(":"))
    return width, count


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(description="Scaling study for the base models.")
    commands = top.add_subparsers(required=True)
    command = commands.add_parser("train", help="Train the cells of the grid.")
    command.set_defaults(function=train)
    command.add_argument("--data", required=True, help="Prepared corpus with held-out text.")
    command.add_argument("--out", required=True, help="Folder for the training folders.")
    command.add_argument("--results", required=True, help="JSON lines to append to.")
    command.add_argument("--lm1b", help="One Billion Word held-out text, to evaluate on as well.")
    command.add_argument("--cell-dims", type=int, nargs="+", default=[2048, 3072, 4096])
    command.add_argument("--learning-rates", type=float, nargs="+", default=[8e-3, 7e-3, 6e-3])
    command.add_argument("--tokens", type=float, nargs="+", default=[30e6, 60e6, 120e6])
    command.add_argument("--projection-dim", type=int, default=512)
    command.add_argument(
        "--filters",
        type=filters,
        nargs="+",
        default=FILTERS,
        metavar="WIDTH:COUNT",
        help="Convolution filters.",
    )
    command.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
    command.add_argument("--schedule", choices=["cosine", "wsd"], default="cosine")
    command.add_argument("--batch-size", type=int, default=2048)
    command.add_argument("--unroll", type=int, default=20)
    command.add_argument("--n-samples", type=int, default=8192)
    command.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    command.add_argument("--seed", type=int, default=1)
    command = commands.add_parser("table", help="Print the grid, the fit and the predictions.")
    command.set_defaults(function=print_table)
    command.add_argument("--results", required=True, help="JSON lines of `train`.")
    command.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
    command.add_argument("--schedule", choices=["cosine", "wsd"], default="cosine")
    command.add_argument("--minutes", type=float, nargs="+", default=[60.0, 90.0])
    command.add_argument("--noise", type=float, default=0.005, help="Standard deviation in nats.")
    command = commands.add_parser("rates", help="Print the loss by optimizer and learning rate.")
    command.set_defaults(function=print_rates)
    command.add_argument("--results", required=True, help="JSON lines of `train`.")
    return top


def main() -> None:
    """Run the command line."""
    args = parser().parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
