"""Tests of progress output: a bar on a terminal, otherwise plain lines."""

import io
import sys

import pytest

from elmo import progress
from elmo.progress import Progress, duration, hidden_progress, progress_message


@pytest.fixture
def no_interval(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)


@pytest.mark.usefixtures("no_interval")
def test_progress_prints_plain_lines_if_there_is_no_terminal(capsys):
    with Progress("work", 10, "lines") as bar:
        bar.advance(4)
    assert capsys.readouterr().err.startswith("work: 4 of 10 lines, about 0 s left")
    with Progress("work", None, "lines") as bar:
        bar.advance(1234)
    assert capsys.readouterr().err == "work: 1,234 lines\n"


def test_progress_prints_nothing_before_the_interval_has_passed(capsys):
    with Progress("work", 10, "lines") as bar:
        for _ in range(10):
            bar.advance(1)
    assert capsys.readouterr().err == ""


def test_progress_shows_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("work", 10, "lines") as bar:
        bar.advance(4)
    assert "work" in screen.getvalue()
    assert "4 lines" in screen.getvalue()
    assert bar.done == 4


def test_hidden_progress_prints_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)
    with hidden_progress():
        with Progress("work", 2, "steps") as bar:
            bar.advance(1)
        progress_message("done")
    assert capsys.readouterr().err == ""
    with hidden_progress(False):
        progress_message("done")
    assert capsys.readouterr().err == "done\n"


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
def test_duration_is_formatted_with_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.27, "0.3 s"), (9.96, "10 s"), (8542, "2 h 22 min")]
)
def test_duration_has_a_decimal_place_below_ten_seconds_on_request(seconds, text):
    assert duration(seconds, decimal=True) == text
