"""Tests of the layer mix plot."""

import sys

import pytest

from elmo.tasks.training.fit_result import FitResult
from elmo.tasks.training.mix_plot import draw_mixes


def run(seed, **shares):
    mixes = {placement: {"shares": values, "gamma": 1.0} for placement, values in shares.items()}
    return {"out": "x", "seed": seed, "development": None, "test": None, "mixes": mixes}


def test_mix_plot_shows_each_mix_with_several_layers(tmp_path):
    pytest.importorskip("matplotlib")
    runs = (run(1, input=[0.2, 0.8], output=[0.5, 0.5]), run(2, input=[1.0]))
    shares = FitResult("x", "accuracy", runs).shares()
    # A mix with a single layer is not drawn.
    assert shares == {"input, seed 1": [0.2, 0.8], "output, seed 1": [0.5, 0.5]}
    plot = draw_mixes(tmp_path / "mixes.png", shares)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_draw_mixes_without_mixes_or_matplotlib_writes_nothing(tmp_path, monkeypatch):
    assert draw_mixes(tmp_path / "mixes.png", {}) is None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_mixes(tmp_path / "mixes.png", {"input, seed 1": [0.5, 0.5]}) is None
    assert list(tmp_path.iterdir()) == []
