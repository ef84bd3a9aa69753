"""Pythons that are forks of one that has imported everything."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).parents[2] / "runs"

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="an installed copy has no runs")

SCRIPT = """\
import os, subprocess, sys
import elmo.tasks.fit
print(sys.argv[1:], os.environ["MINE"], os.getcwd(), sys.stdin.read())
if sys.argv[1] == "first":
    sys.exit(subprocess.run([sys.executable, *sys.argv[:1], "second"], input=b"again").returncode)
sys.exit("that is all")
"""


@pytest.fixture
def forks(monkeypatch):
    monkeypatch.syspath_prepend(RUNS)
    return importlib.import_module("fork_server")


def test_a_command_and_what_it_starts(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    shell = f'cd "{tmp_path}"; echo once | MINE=yes "$PYTHON" script.py first; echo $?; exit 7'
    command = [sys.executable, str(RUNS / "fork_server.py"), "2", "bash", "-c", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, second, status = done.stdout.replace("\n\n", "\n").splitlines()
    assert first == f"['first'] yes {tmp_path} once"
    # What it starts as its own Python is a fork as well.
    assert second == f"['second'] yes {tmp_path} again"
    assert "that is all" in done.stderr
    assert (status, done.returncode) == ("1", 7)


def test_fits_take_places_and_do_not_overtake(tmp_path, forks, monkeypatch):
    def request(name, *flags):
        words = ["-m", "elmo", "task", "fit", name, *flags] if flags else ["x.py", name]
        return forks.Request(None, [], words, "", {})

    started = []
    server = forks.Server(tmp_path, 6)

    def start(request):
        started.append(request.words[-1 if len(request.words) == 2 else 4])
        server._running[len(started)] = request

    monkeypatch.setattr(server, "_start", start)
    three = ("--seeds", "3", "--parallel-seeds", "5")
    five = ("--seeds", "3", "--parallel-seeds", "9", "--seeds", "5")
    server._waiting = [
        request("a", *three),
        request("b", *five),
        request("c", *three),
        request("d"),
        request("e", "--seeds", "9", "--parallel-seeds", "9"),
    ]
    server._start_waiting()
    # Three places are left, enough for c, but b was there before; what is no fit needs none.
    assert started == ["a", "d"]
    server._running.clear()
    server._start_waiting()
    assert started == ["a", "d", "b"]
    server._running.clear()
    server._start_waiting()
    server._running.clear()
    server._start_waiting()
    # More than there are: alone.
    assert started == ["a", "d", "b", "c", "e"]
    server._listener.close()
