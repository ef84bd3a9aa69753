"""Tests of plotting the losses and metrics of a run."""

import contextlib
import math
import sys

import pytest

from elmo.config import PretrainConfig
from elmo.installation import install_command
from elmo.train.curves import draw_curves, running_mean
from elmo.train.report import Report

PNG = b"\x89PNG"


@pytest.mark.parametrize("first_factor", [1.2, 9.0])
def test_draw_curves_writes_a_png_file_for_a_language_model(tmp_path, first_factor):
    with Report(tmp_path, PretrainConfig(("x",), "y")) as report:
        for step in range(1, 50):
            report.step(step, {"loss": 5.0 if step != 7 else math.nan, "learning_rate": 0.1})
        report.evaluation(
            10, {"forward": 100.0 * first_factor, "backward": 90.0 * first_factor, "mean": 95.0}
        )
        report.evaluation(49, {"forward": 100.0, "backward": 90.0, "mean": 95.0})
    path = draw_curves(tmp_path, "nats")
    assert path == tmp_path / "curves.png"
    assert path.read_bytes().startswith(PNG)


def test_draw_curves_plots_all_metrics_of_models_without_perplexity(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "elmo.train.curves._draw_scores", lambda axes, scores: drawn.update(scores=scores)
    )
    with Report(tmp_path, PretrainConfig(("x",), "y")) as report:
        report.step(1, {"loss": 0.7})
        report.evaluation(1, {"loss": 0.7, "accuracy": 0.5, "macro_f1": math.nan})
        report.evaluation(2, {"loss": 0.6, "accuracy": 0.75, "macro_f1": 0.25})
    draw_curves(tmp_path, "loss")
    assert drawn["scores"] == {"accuracy": [(1, 0.5), (2, 0.75)], "macro_f1": [(2, 0.25)]}
    monkeypatch.undo()
    assert draw_curves(tmp_path, "loss").read_bytes().startswith(PNG)


def test_loss_and_nats_have_the_given_unit(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    labels = []
    monkeypatch.setattr(
        figure.Figure,
        "savefig",
        lambda self, path, **_: labels.extend(axes.get_ylabel() for axes in self.axes),
    )
    monkeypatch.setattr("elmo.train.curves.atomic_path", contextlib.nullcontext)
    with Report(tmp_path, PretrainConfig(("x",), "y")) as report:
        report.step(1, {"loss": 2.5})
        report.evaluation(1, {"nats": 2.4, "perplexity": 11.0})
    draw_curves(tmp_path, "nats per byte")
    assert labels == ["nats per byte", "nats per byte"]


def test_draw_curves_accepts_an_empty_log(tmp_path):
    Report(tmp_path, PretrainConfig(("x",), "y")).close()
    assert draw_curves(tmp_path, "loss").read_bytes().startswith(PNG)


def test_draw_curves_logs_a_warning_without_matplotlib(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_curves(tmp_path, "loss") is None
    assert f"needs matplotlib: {install_command('train')}" in caplog.text


def test_running_mean_is_unbiased_and_smooth():
    assert running_mean([]) == []
    assert running_mean([3.0] * 500) == pytest.approx([3.0] * 500)
    values = [1.0] * 500 + [2.0] * 500
    assert running_mean(values)[0] == 1.0
    assert 1.9 < running_mean(values)[-1] <= 2.0
