"""The training line: on a terminal, in a log, and silent."""

import io
import sys

import pytest

from elmo.train import progress_line
from elmo.train.progress_line import ProgressLine, duration


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by half a second whenever it is asked."""
    times = (0.5 * tick for tick in range(10**6))
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: next(times))


@pytest.mark.usefixtures("clock")
def test_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "LINE_INTERVAL", 0.0)
    with ProgressLine(n_steps=100, steps_per_epoch=40) as shown:
        assert shown.tokens_per_second == 0.0
        assert shown.seconds_left is None
        shown.update(10, 5000, loss=4.25, learning_rate=0.002)
        shown.write("perplexity 80")
    words = capsys.readouterr().err.splitlines()
    assert words[0].startswith("epoch 0.25, step 10 of 100, ")
    assert "tokens/s" in words[0]
    assert words[0].endswith(" left, loss 4.2500, rate 0.002")
    assert words[1] == "perplexity 80"


def test_lines_are_rare(capsys):
    with ProgressLine(n_steps=100, steps_per_epoch=40) as shown:
        for step in range(1, 50):
            shown.update(step, 100)
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_by_other_processes(capsys, monkeypatch):
    monkeypatch.setattr(progress_line, "LINE_INTERVAL", 0.0)
    with ProgressLine(n_steps=100, steps_per_epoch=40, show=False) as shown:
        shown.update(1, 100, loss=1.0)
        shown.write("text")
    assert capsys.readouterr() == ("", "")


def test_speed_is_that_of_the_latest_updates(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now)
    with ProgressLine(n_steps=1000, steps_per_epoch=40, first_step=100, show=False) as shown:
        for step in range(101, 201):
            now += 1.0 if step <= 120 else 0.1
            shown.update(step, 50)
        assert shown.tokens_per_second == pytest.approx(500)
        assert shown.seconds_left == pytest.approx(80)
        now += 3600.0
        shown.restart_clock()
        now += 0.1
        shown.update(201, 50)
        assert shown.tokens_per_second == pytest.approx(500)


def test_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressLine(n_steps=100, steps_per_epoch=40) as shown:
        shown.update(10, 5000, loss=4.25)
        shown.write("perplexity [80]")
    assert "step 10 of 100" in screen.getvalue()
    assert "loss 4.2500" in screen.getvalue()
    assert "perplexity [80]" in screen.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (3605, "1 h"),
        (7300, "2 h 1 min"),
        (3 * 86400 + 7200, "3 d 2 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
