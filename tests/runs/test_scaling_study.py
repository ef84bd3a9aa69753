"""Tests of `runs/scaling_study.py`: options of its cells, finished cells, tables."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import scaling_study

from elmo.errors import TrainingError


@pytest.fixture
def configs(monkeypatch):
    """Replace training; the loss follows from optimizer and rate. Returns the configs of runs."""
    configs = []

    def pretrain(config):
        configs.append(config)
        optimizer = config.optimizer
        if optimizer.learning_rate == 1.0:
            raise TrainingError("Training diverged.")
        loss = 5.0 + optimizer.learning_rate - 0.5 * (optimizer.optimizer == "muon")
        loss += 0.1 * config.run.seed
        Path(config.out).mkdir(parents=True)
        event = {"kind": "step", "tokens_per_second": 1000}
        (Path(config.out) / "log.jsonl").write_text(json.dumps(event) + "\n")
        return SimpleNamespace(
            plan=SimpleNamespace(n_bilm=10, n_softmax=20),
            best=SimpleNamespace(loss=loss, forward=100.0, backward=100.0),
            seconds=1.0,
        )

    monkeypatch.setattr(scaling_study, "pretrain", pretrain)
    return configs


def run(folder, command, *words):
    words = [command, "--results", f"{folder}/results.jsonl", *map(str, words)]
    if command == "train":
        words += ["--data", "corpus", "--out", f"{folder}/cells", "--batch-size", "10"]
    args = scaling_study.parser().parse_args(words)
    args.function(args)


SIZE = ("--cell-dims", 32, "--tokens", 4000, "--projection-dim", 8, "--filters", "1:4", "3:8")


def test_cells_vary_optimizer_and_learning_rate(tmp_path, configs):
    rates = ("--learning-rates", 0.25, 0.5, "--schedule", "wsd")
    for name in ("adamw", "muon", "muon"):
        run(tmp_path, "train", *SIZE, *rates, "--optimizer", name)
    # The repeated command trained nothing.
    used = [(each.optimizer.optimizer, each.optimizer.learning_rate) for each in configs]
    assert used == [("adamw", 0.25), ("adamw", 0.5), ("muon", 0.25), ("muon", 0.5)]
    assert len({each.out for each in configs}) == 4
    for each in configs:
        assert (each.optimizer.schedule, each.run.max_steps) == ("wsd", 20)
        assert each.input.filters == ((1, 4), (3, 8))


def test_rates_are_means_over_seeds(tmp_path, configs, capsys):
    run(tmp_path, "train", *SIZE, "--learning-rates", 0.25, 1.0)
    for seed in (1, 2):
        options = ("--optimizer", "muon", "--seed", seed, "--learning-rates", 0.25)
        run(tmp_path, "train", *SIZE, *options)
    capsys.readouterr()
    run(tmp_path, "rates")
    assert capsys.readouterr().out.splitlines() == [
        "| size | filters | tokens | schedule | optimizer | 0.25 | 1 | tokens/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 32/8 | 1:4 3:8 | 4,000 | cosine | adamw | 5.3500 (1) | diverged | 1,000 |",
        "| 32/8 | 1:4 3:8 | 4,000 | cosine | muon | 4.9000 (2) |  | 1,000 |",
    ]
    assert len(configs) == 4


def test_rates_of_other_schedules_and_filters_are_separate_rows(tmp_path, configs, capsys):
    for seed, options in enumerate([(), ("--schedule", "wsd"), ("--filters", "1:8")]):
        run(
            tmp_path / str(seed), "train", *SIZE, "--learning-rates", 0.25, "--seed", seed, *options
        )
    results = [path.read_text() for path in sorted(tmp_path.glob("*/results.jsonl"))]
    (tmp_path / "results.jsonl").write_text("".join(results))
    capsys.readouterr()
    run(tmp_path, "rates")
    assert capsys.readouterr().out.splitlines() == [
        "| size | filters | tokens | schedule | optimizer | 0.25 | tokens/s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| 32/8 | 1:4 3:8 | 4,000 | cosine | adamw | 5.2500 (1) | 1,000 |",
        "| 32/8 | 1:4 3:8 | 4,000 | wsd | adamw | 5.3500 (1) | 1,000 |",
        "| 32/8 | 1:8 | 4,000 | cosine | adamw | 5.4500 (1) | 1,000 |",
    ]


def test_sizes_need_a_learning_rate_each(tmp_path, configs):
    with pytest.raises(SystemExit, match="one learning rate per size, or one size"):
        run(tmp_path, "train", "--cell-dims", 8, 16, "--learning-rates", 0.1)
    assert not configs


def test_table_has_the_best_rate_of_one_optimizer_and_schedule(tmp_path, configs, capsys):
    run(tmp_path, "train", *SIZE, "--learning-rates", 0.5, 0.25)
    run(tmp_path, "train", *SIZE, "--learning-rates", 0.25, "--optimizer", "muon")
    run(tmp_path, "train", *SIZE, "--learning-rates", 0.125, "--schedule", "wsd")
    capsys.readouterr()
    run(tmp_path, "table")
    assert "| 32/8 | 210.61 | 1,000 |" in capsys.readouterr().out
    run(tmp_path, "table", "--schedule", "wsd")
    assert "| 32/8 | 185.86 | 1,000 |" in capsys.readouterr().out
    assert len(configs) == 4


def test_recorded_cells_of_the_study_are_printed(capsys):
    """Their records have neither an optimizer nor filters."""
    results = Path(scaling_study.__file__).with_name("scaling_study.jsonl")
    args = scaling_study.parser().parse_args(["rates", "--results", str(results)])
    args.function(args)
    assert (
        "1:32 2:32 3:64 4:128 5:256 6:512 | 120,012,800 | cosine | adamw |"
        in capsys.readouterr().out
    )
