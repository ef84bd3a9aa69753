"""Tests of the process of a headless browser."""

import sys

import browser_process


def test_process_that_ends_is_waited_for():
    with browser_process.browser_process([sys.executable, "-c", "input()"]) as process:
        assert process.args[0] == sys.executable
    assert process.returncode == 1  # there is no input


def test_process_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(browser_process, "END_SECONDS", 0.1)
    with browser_process.browser_process(
        [sys.executable, "-c", "import time; time.sleep(60)"]
    ) as p:
        assert p.poll() is None
    assert p.returncode < 0
