"""Tests of the messages and log entries of a run."""

from types import SimpleNamespace

import pytest
import torch

from elmo.config import PretrainConfig
from elmo.train.report import read_log
from elmo.train.run_monitor import RunMonitor
from elmo.train.run_state import RunState
from elmo.train.trainable import StepResult

TRAINABLE = SimpleNamespace(
    n_steps=100,
    steps_per_epoch=8.0,
    tokens_per_step=50,
    loss_names=("forward", "backward"),
    loss_unit="nats",
    message=lambda step, is_evaluated: f"message after step {step}",
)
RESULT = StepResult(torch.tensor([2.0, 4.0]), torch.tensor(0.5), 0.25)
EVALUATION = SimpleNamespace(values=lambda: {"score": 0.75}, line=lambda: "score 0.75")


def report_all(monitor, resume_step=None):
    """Report one event of each kind."""
    with monitor.opened(resume_step):
        monitor.step(4, 0.25)
        monitor.losses(4, [2.0, 4.0], RESULT)
        monitor.message(4, is_evaluated=False)
        monitor.evaluation(4, EVALUATION, is_best=True)
        monitor.evaluation(6, EVALUATION, is_best=False)
        monitor.rollback(7, RunState(step=6, n_rollbacks=1), "too high")


def make_monitor(folder, *, is_first=True):
    return RunMonitor(PretrainConfig(("corpus",), str(folder)), TRAINABLE, is_first=is_first)


def test_monitor_prints_and_logs_all_events(tmp_path, capsys):
    report_all(make_monitor(tmp_path))
    assert capsys.readouterr().err.splitlines() == [
        "message after step 4",
        "step 4, epoch 0.50: score 0.75",
        "step 6, epoch 0.75: score 0.75 (no improvement)",
        "Training diverged before step 7. Returning to step 6 with 0.7 times the learning rate.",
    ]
    losses, first, second, rollback = read_log(tmp_path)
    del losses["time"], losses["tokens_per_second"]
    assert losses == {
        "kind": "step",
        "step": 4,
        "epoch": 0.5,
        "loss": 3.0,
        "forward": 2.0,
        "backward": 4.0,
        "learning_rate": 0.25,
        "gradient_norm": 0.5,
    }
    assert [(event["step"], event["score"]) for event in (first, second)] == [(4, 0.75), (6, 0.75)]
    assert (rollback["kind"], rollback["step"], rollback["diverged_step"]) == ("rollback", 6, 7)
    assert (rollback["rate_factor"], rollback["reason"]) == (pytest.approx(0.7), "too high")


def test_monitor_of_a_resumed_run_keeps_earlier_events(tmp_path):
    report_all(make_monitor(tmp_path))
    with make_monitor(tmp_path).opened(4):
        pass
    assert [event["step"] for event in read_log(tmp_path)] == [4, 4]


def test_only_the_first_process_reports(tmp_path, capsys):
    monitor = make_monitor(tmp_path, is_first=False)
    report_all(monitor)
    monitor.draw_curves()
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("curves")
def test_monitor_draws_the_curves_of_the_logged_events(tmp_path):
    monitor = make_monitor(tmp_path)
    report_all(monitor)
    monitor.draw_curves()
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
