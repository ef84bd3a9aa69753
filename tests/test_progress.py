"""Progress: plain lines elsewhere, a bar on a terminal, nothing when not asked for."""

import io
import sys

import pytest

from elmo import progress
from elmo.progress import Progress


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)


@pytest.mark.usefixtures("often")
def test_plain_lines(capsys):
    with Progress("work", 10, "lines") as bar:
        bar.advance(4)
    assert capsys.readouterr().err.startswith("work: 4 of 10 lines, about 0 s left")
    with Progress("work", None, "lines") as bar:
        bar.advance(1234)
    assert capsys.readouterr().err == "work: 1,234 lines\n"


def test_lines_are_rare(capsys):
    with Progress("work", 10, "lines") as bar:
        for _ in range(10):
            bar.advance(1)
    assert capsys.readouterr().err == ""


def test_bar_on_a_terminal(monkeypatch):
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
