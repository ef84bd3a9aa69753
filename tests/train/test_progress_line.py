"""Tests of the progress line on a terminal, in a file, and in silent processes."""

import io
import sys

import pytest

from elmo.train import progress_line
from elmo.train.progress_line import ProgressLine


@pytest.fixture
def clock(monkeypatch):
    """Install a fake clock that advances by half a second with every call."""
    times = (0.5 * tick for tick in range(10**6))
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: next(times))


@pytest.mark.usefixtures("clock")
def test_progress_is_printed_as_lines_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "LINE_INTERVAL", 0.0)
    line = ProgressLine(n_steps=100, steps_per_epoch=40)
    with line.displayed():
        assert line.tokens_per_second == 0.0
        assert line.seconds_left is None
        line.update(10, 5000, 0.002)
        line.update_loss(4.25)
        line.write("perplexity 80")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "epoch 0.25, step 10 of 100, rate 0.002"
    assert lines[1].startswith("epoch 0.25, step 10 of 100, ")
    assert "tokens/s" in lines[1]
    assert lines[1].endswith(" left, loss 4.2500, rate 0.002")
    assert lines[2] == "perplexity 80"


@pytest.mark.usefixtures("clock")
def test_evaluation_progress_has_number_of_batches_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "LINE_INTERVAL", 0.0)
    line = ProgressLine(n_steps=100, steps_per_epoch=40)
    line.step = 10
    with line.displayed():
        line.start_evaluation(4)
        line.update_evaluation(0)
        line.update_evaluation(1)
        line.update_evaluation(5)
    assert capsys.readouterr().err.splitlines() == [
        "evaluation at step 10, batch 0 of 4",
        "evaluation at step 10, batch 1 of 4, 3 s left",
        "evaluation at step 10, batch 5 of 4, 0 s left",
    ]


def test_evaluation_progress_is_shown_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    line = ProgressLine(n_steps=100, steps_per_epoch=40)
    line.step = 10
    with line.displayed():
        line.start_evaluation(4)
        line.update_evaluation(2)
        line._bars.refresh()
    assert "evaluation at step 10, batch 2 of 4" in terminal.getvalue()


def test_progress_lines_are_printed_only_at_intervals(capsys):
    line = ProgressLine(n_steps=100, steps_per_epoch=40)
    with line.displayed():
        for step in range(1, 50):
            line.update(step, 100, 0.1)
    assert capsys.readouterr().err == ""


def test_progress_line_prints_nothing_if_show_is_false(capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "LINE_INTERVAL", 0.0)
    line = ProgressLine(n_steps=100, steps_per_epoch=40, show=False)
    with line.displayed():
        line.update(1, 100, 0.1)
        line.update_loss(1.0)
        line.write("text")
    assert capsys.readouterr() == ("", "")


def test_training_speed_is_averaged_over_the_latest_losses(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now)
    line = ProgressLine(n_steps=1000, steps_per_epoch=40, show=False)
    line.step = 100
    with line.displayed():
        for step in range(101, 201):
            now += 1.0 if step <= 120 else 0.1
            line.update(step, 50, 0.1)
            line.update_loss(4.25)
        assert line.tokens_per_second == pytest.approx(500)
        assert line.seconds_left == pytest.approx(80)
        now += 3600.0
        line.restart_clock()
        now += 0.1
        line.update(201, 50, 0.1)
        line.update_loss(4.25)
        assert line.tokens_per_second == pytest.approx(500)


def test_training_speed_does_not_depend_on_when_steps_are_launched(monkeypatch):
    """Steps on a GPU are launched at once and done when the loss is read."""
    now = 0.0
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now)
    line = ProgressLine(n_steps=1000, steps_per_epoch=40, show=False)
    with line.displayed():
        for step in range(1, 501):
            now += 0.001
            line.update(step, 50, 0.1)
            if step % 50 == 0:
                now += 50 * 0.099
                line.update_loss(4.25)
        assert line.tokens_per_second == pytest.approx(500)
        assert line.seconds_left == pytest.approx(50)


def test_progress_line_is_updated_in_place_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    line = ProgressLine(n_steps=100, steps_per_epoch=40)
    with line.displayed():
        line.update(10, 5000, 0.1)
        line.update_loss(4.25)
        line.write("perplexity [80]")
    assert "step 10 of 100" in screen.getvalue()
    assert "loss 4.2500" in screen.getvalue()
    assert "perplexity [80]" in screen.getvalue()


@pytest.mark.parametrize("first_step", [0, 100])
def test_time_left_is_printed_once_after_some_steps(capsys, monkeypatch, first_step):
    now = 0.0
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now)
    line = ProgressLine(n_steps=1000, steps_per_epoch=40)
    line.step = first_step
    with line.displayed():
        for step in range(first_step + 1, first_step + 60):
            # The first steps are slow and not counted.
            now += 1.0 if step <= first_step + 5 else 0.1
            line.update(step, 50, 0.1)
            if step % 5 == 0:
                line.update_loss(4.25)
    left = {0: "1 min 37 s", 100: "1 min 27 s"}[first_step]
    text = f"500 tokens/s: about {left} left, without evaluations\n"
    assert capsys.readouterr().err == text
