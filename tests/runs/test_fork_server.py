"""Tests of the server that forks Python processes after all imports."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).parents[2] / "runs"

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")

SCRIPT = """\
import os, subprocess, sys
import elmo.tasks.training.fit
print(sys.argv[1:], os.environ["NAME"], os.getcwd(), sys.stdin.read())
if sys.argv[1] == "first":
    sys.exit(subprocess.run([sys.executable, *sys.argv[:1], "second"], input=b"again").returncode)
sys.exit("last message")
"""


@pytest.fixture
def fork_server(monkeypatch):
    monkeypatch.syspath_prepend(RUNS)
    return importlib.import_module("fork_server")


def test_commands_and_their_child_processes_run_in_forked_processes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    shell = f'cd "{tmp_path}"; echo once | NAME=value "$PYTHON" script.py first; echo $?; exit 7'
    command = [sys.executable, str(RUNS / "fork_server.py"), "2", "bash", "-c", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, second, status = done.stdout.replace("\n\n", "\n").splitlines()
    assert first == f"['first'] value {tmp_path} once"
    # A child started with sys.executable is forked, too.
    assert second == f"['second'] value {tmp_path} again"
    assert "last message" in done.stderr
    assert (status, done.returncode) == ("1", 7)


def test_task_fits_wait_for_free_slots_in_order_of_arrival(tmp_path, fork_server, monkeypatch):
    def request(name, *flags):
        arguments = ["-m", "elmo", "task", "fit", name, *flags] if flags else ["x.py", name]
        return fork_server.Request(None, [], arguments, "", {})

    started = []
    server = fork_server.Server(tmp_path, 6)

    def start(request):
        started.append(request.arguments[-1 if len(request.arguments) == 2 else 4])
        server._running[len(started)] = request

    monkeypatch.setattr(server, "_start", start)
    three_slots = ("--seeds", "3", "--parallel-seeds", "5")
    five_slots = ("--seeds", "3", "--parallel-seeds", "9", "--seeds", "5")
    server._waiting = [
        request("a", *three_slots),
        request("b", *five_slots),
        request("c", *three_slots),
        request("d"),
        request("e", "--seeds", "9", "--parallel-seeds", "9"),
    ]
    server._start_waiting()
    # Three slots are free, enough for c, but b came first. d is not a fit and needs no slot.
    assert started == ["a", "d"]
    server._running.clear()
    server._start_waiting()
    assert started == ["a", "d", "b"]
    server._running.clear()
    server._start_waiting()
    server._running.clear()
    server._start_waiting()
    # e needs more slots than there are and runs alone.
    assert started == ["a", "d", "b", "c", "e"]
    server._listener.close()
