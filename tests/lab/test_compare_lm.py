"""Tests of the comparison of language models."""

import dataclasses

import pytest
from small_language_models import TEXT, small_config
from typer.testing import CliRunner

from elmo.config import LossConfig, OptimizerConfig, RunConfig
from elmo.config.language_model_commands import LMCompareConfig, LMTrainConfig
from elmo.config.language_models import RecurrentConfig, SymbolConfig
from elmo.errors import ConfigError, InputError, TrainingError
from elmo.lab.compare_lm import CURVES, FIGURES, TABLE
from elmo.lab.compare_lm import compare_lm as compare_configs
from elmo.lab.loss_comparison import read_comparison
from elmo.train.report import read_log


def compare_lm(config):
    return compare_configs({"": config})


def grid(tmp_path, network=None, sections=None, **options):
    """Return the config of a comparison of small models."""
    config = small_config(
        tmp_path,
        network=network or RecurrentConfig(),
        run=RunConfig(epochs=1, log_every=5),
        **sections or {},
    )
    names = [field.name for field in dataclasses.fields(LMTrainConfig)]
    return LMCompareConfig(**{name: getattr(config, name) for name in names}, **options)


def test_all_combinations_are_validated_before_the_first_is_trained(tmp_path):
    config = grid(tmp_path, RecurrentConfig(mogrifier_rounds=2), cells=("lstm", "gru"), depths=(1,))
    with pytest.raises(ConfigError, match="gru-1x128: mogrifier_rounds is only supported with"):
        compare_lm(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("cells", "option", "message"),
    [
        ("[rnn]", ["--nonlinearity", "relu"], ""),
        ("[lstmp]", ["--projection-dim", "4"], ""),
        ("[rnn, gru]", ["--nonlinearity", "relu"], "gru-1x8: nonlinearity is only supported with"),
    ],
)
def test_command_accepts_options_of_the_compared_cells(tmp_path, cells, option, message):
    from elmo.cli.build_application import application

    (tmp_path / "text.txt").write_text(TEXT)
    arguments = ["lm", "compare", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out")]
    arguments += ["--cells", cells, "--depths", "[1]", "--widths", "[8]", "--max-steps", "2"]
    result = CliRunner().invoke(application(), [*arguments, "--batch-size", "4", *option])
    assert result.exit_code == (2 if message else 0)
    assert message in result.output


def test_width_of_an_adaptive_softmax_is_checked_before_the_first_is_trained(tmp_path):
    """The number of its clusters depends on the symbols of the text: the last cutoff is unused."""
    sections = {"loss": LossConfig(softmax="adaptive", cutoffs=(4, 8, 500))}
    config = grid(tmp_path, sections=sections, cells=("rnn",), depths=(1,), widths=(16, 8))
    with pytest.raises(ConfigError, match="rnn-1x8: An adaptive softmax with 2 cutoffs needs"):
        compare_lm(config)
    assert not (tmp_path / "run").exists()


def test_comparison_trains_all_combinations_and_draws_legend_next_to_curves(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    savefig = figure.Figure.savefig

    def keep(self, *arguments, **options):
        drawn.append(self)
        savefig(self, *arguments, **options)

    monkeypatch.setattr(figure.Figure, "savefig", keep)
    result = compare_lm(grid(tmp_path, cells=("rnn", "gru"), depths=(1,), widths=(8, 16)))
    names = ["rnn-1x8", "rnn-1x16", "gru-1x8", "gru-1x16"]
    assert [run.name for run in result.runs] == names
    assert [(run.cell, run.hidden_dim) for run in result.runs[1:3]] == [("rnn", 16), ("gru", 8)]
    for name in (TABLE, FIGURES, CURVES):
        assert (tmp_path / "run" / name).stat().st_size
    (axes,), (legend,) = drawn[-1].axes, drawn[-1].legends
    assert axes.get_ylabel() == "nats per character on held-out text"
    assert len(axes.lines) == len(names)
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_loss_on_test_text_is_reported_if_there_is_one(tmp_path):
    options = {"cells": ("rnn",), "depths": (1,), "widths": (8,)}
    sections = {"symbols": SymbolConfig(valid_fraction=0.2, test_fraction=0.2)}
    result = compare_lm(grid(tmp_path, sections=sections, **options))
    (run,) = result.runs
    assert f"| {run.bits_per_character:.4f} | {run.test_nats:.4f} |" in str(result)
    (other := tmp_path / "without").mkdir()
    result = compare_lm(grid(other, **options))
    assert result.runs[0].test_nats is None
    assert "test" not in str(result)


def configs(tmp_path, *names, **options):
    """Return configs with networks of different sizes."""
    return {
        name: grid(
            tmp_path, RecurrentConfig(cell="gru", n_layers=number, hidden_dim=8 * number), **options
        )
        for number, name in enumerate(names, start=1)
    }


def test_ngram_models_are_computed_once_for_all_models(tmp_path, monkeypatch):
    calls = []

    def losses(*arguments):
        calls.append(arguments)
        return [2.5] * 6

    monkeypatch.setattr("elmo.lab.loss_comparison.ngram_losses", losses)
    compare_lm(grid(tmp_path, cells=("rnn", "gru"), depths=(1,), widths=(8,)))
    assert len(calls) == 1
    for name in ("rnn-1x8", "gru-1x8"):
        comparison = read_comparison(tmp_path / "run" / name / "model")
        assert comparison.ngrams == (2.5,) * 6


def test_several_configs_are_compared_as_they_are(tmp_path):
    result = compare_configs(configs(tmp_path, "one", "folder/two.yaml"))
    assert [run.name for run in result.runs] == ["one", "two"]
    assert [(run.cell, run.n_layers, run.hidden_dim) for run in result.runs] == [
        ("gru", 1, 8),
        ("gru", 2, 16),
    ]
    assert str(result).startswith("| config | cell |")
    assert "| two | gru | 2 | 16 |" in (tmp_path / "run" / TABLE).read_text()
    assert (tmp_path / "run" / CURVES).stat().st_size
    losses = [run.nats for run in result.runs]
    # Finished runs are not repeated.
    again = compare_configs(configs(tmp_path, "one", "folder/two.yaml"))
    assert [run.nats for run in again.runs] == losses
    logged = read_log(tmp_path / "run" / "one")
    assert len([event for event in logged if event["kind"] == "evaluation"]) == 1


def diverging(tmp_path, *names):
    """Return configs of which the first diverges at its first step."""
    found = configs(tmp_path, *names)
    optimizer = OptimizerConfig(optimizer="adamw", learning_rate=1e6, clip_norm=0)
    first = next(iter(found))
    network = RecurrentConfig(cell="rnn", nonlinearity="relu", n_layers=1, hidden_dim=8)
    return {**found, first: dataclasses.replace(found[first], optimizer=optimizer, network=network)}


def test_models_are_compared_without_those_that_diverged(tmp_path):
    result = compare_configs(diverging(tmp_path, "one", "two"))
    assert [run.name for run in result.runs] == ["two"]
    assert list(result.failures) == ["one"]
    table = (tmp_path / "run" / TABLE).read_text()
    assert "| two | gru |" in table
    assert "\none failed: Training diverged before step" in table
    (alone := tmp_path / "alone").mkdir()
    lists = {"cells": ("rnn",), "depths": (1,), "widths": (8,)}
    only = dataclasses.replace(diverging(alone, "one")["one"], **lists)
    with pytest.raises(TrainingError, match=r"No model .* rnn-1x8: Training diverged"):
        compare_lm(only)


def test_several_configs_are_crossed_with_the_given_lists(tmp_path):
    result = compare_configs(configs(tmp_path, "one", "two", cells=("rnn", "lstm")))
    names = ["one-rnn-1x8", "one-lstm-1x8", "two-rnn-2x16", "two-lstm-2x16"]
    assert [run.name for run in result.runs] == names


def test_configs_must_have_the_same_text_and_symbols_and_different_names(tmp_path):
    one = grid(tmp_path)
    other = dataclasses.replace(one, symbols=SymbolConfig(unit="bytes"))
    with pytest.raises(ConfigError, match=r"symbols of b\.yaml differs from that of the first"):
        compare_configs({"a.yaml": one, "b.yaml": other})
    with pytest.raises(ConfigError, match="Two configs are named a"):
        compare_configs({"a.yaml": one, "b/a.yaml": one})
    assert not (tmp_path / "run").exists()


def test_all_batch_sizes_are_checked_before_the_first_is_trained(tmp_path):
    one = grid(tmp_path)
    segments = dataclasses.replace(one.segments, batch_size=10_000)
    with pytest.raises(InputError, match="too few for 10,000 batch rows"):
        compare_configs({"a": one, "b": dataclasses.replace(one, segments=segments)})
    assert not (tmp_path / "run").exists()


def test_width_of_the_last_layer_is_in_the_table(tmp_path):
    network = RecurrentConfig(tied=True, embedding_dim=6)
    options = {"cells": ("rnn",), "widths": (8,)}
    with pytest.raises(ConfigError, match=r"rnn-1x8: hidden_dim \(8\) has no effect"):
        compare_lm(grid(tmp_path, network, depths=(1,), **options))
    assert "| rnn | 2 | 8 (last 6) |" in str(
        compare_lm(grid(tmp_path, network, depths=(2,), **options))
    )


def test_command_compares_presets_and_files(tmp_path):
    from elmo.cli.build_application import application

    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "small.yaml").write_text("network: {cell: gru, n_layers: 1, hidden_dim: 8}\n")
    out = tmp_path / "out"
    arguments = ["lm", "compare", str(tmp_path / "text.txt"), "--out", str(out)]
    arguments += ["--config", "shakespeare", "--config", str(tmp_path / "small.yaml")]
    arguments += ["--max-steps", "2", "--batch-size", "4", "--unroll", "8"]
    result = CliRunner().invoke(application(), arguments)
    assert result.exit_code == 0, result.output
    assert "| small | gru | 1 | 8 |" in result.stdout
    assert "| shakespeare | lstm | 1 | 256 |" in result.stdout
    result = CliRunner().invoke(application(), [*arguments, "--config", "shakespeare"])
    assert result.exit_code == 2
    assert "--config shakespeare is given more than once" in result.output
