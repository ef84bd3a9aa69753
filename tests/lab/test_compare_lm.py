"""Tests of the comparison of language models."""

import dataclasses

import pytest
from small_language_models import small_config

from elmo.config import LossConfig, RunConfig
from elmo.config.language_models import (
    LMCompareConfig,
    LMTrainConfig,
    RecurrentConfig,
    SymbolConfig,
)
from elmo.errors import ConfigError
from elmo.lab.compare_lm import CURVES, FIGURES, TABLE, compare_lm


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
