"""The picture of the mixes."""

import sys

import pytest

from elmo.tasks.fit import FitResult
from elmo.tasks.mix_plot import draw_mixes


def run(seed, **shares):
    mixes = {place: {"shares": each, "gamma": 1.0} for place, each in shares.items()}
    return {"out": "x", "seed": seed, "development": None, "test": None, "mixes": mixes}


def test_bars_for_each_mix_of_each_seed(tmp_path):
    pytest.importorskip("matplotlib")
    runs = (run(1, input=[0.2, 0.8], output=[0.5, 0.5]), run(2, input=[1.0]))
    shares = FitResult("x", "accuracy", runs).shares()
    # Of one layer there is nothing to see.
    assert shares == {"input, seed 1": [0.2, 0.8], "output, seed 1": [0.5, 0.5]}
    picture = draw_mixes(tmp_path / "mixes.png", shares)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_or_to_draw_with(tmp_path, monkeypatch):
    assert draw_mixes(tmp_path / "mixes.png", {}) is None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_mixes(tmp_path / "mixes.png", {"input, seed 1": [0.5, 0.5]}) is None
    assert list(tmp_path.iterdir()) == []
