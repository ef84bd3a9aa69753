"""Tests of child processes: answers, progress reports, errors and termination."""

import os
import signal
import subprocess
import sys
import time

import pytest

from elmo.child_processes import Child, ChildEnded, threads_each
from elmo.errors import ElmoError, InputError

# Module that the child processes import.
HELPER = """
import os, time
from elmo.errors import InputError, MissingExtra
from elmo.child_processes import Child

class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

class Adder:
    def __init__(self, base):
        print("output of a library")
        self.base = base
    def __call__(self, request, report):
        if request == "die":
            os._exit(7)
        if request == "variable":
            return os.environ.get("SOME_VARIABLE")
        if request == "sleep":
            time.sleep(600)
        if isinstance(request, str):
            raise {"input": InputError("no text"), "extra": MissingExtra("this", "that"),
                   "other": Unpicklable(1, 2)}[request]
        report("half")
        return self.base + request

if __name__ == "__main__":
    child = Child(Adder, 0)
    print(child._process.pid, flush=True)
    child.ask("sleep")
"""


@pytest.fixture
def helper(tmp_path, monkeypatch):
    (tmp_path / "helper_of_processes.py").write_text(HELPER)
    monkeypatch.syspath_prepend(tmp_path)
    import helper_of_processes

    yield helper_of_processes
    del sys.modules["helper_of_processes"]


@pytest.fixture
def child(helper):
    child = Child(helper.Adder, 40, environment={"SOME_VARIABLE": "here"})
    yield child
    child.close()


def test_ask_returns_answer_and_reports_progress(child):
    reports = []
    assert child.ask(2, reports.append) == 42
    assert child.ask(3) == 43
    assert child.ask("variable") == "here"
    assert reports == ["half"]


def test_ask_raises_errors_from_the_child(child):
    with pytest.raises(InputError, match="no text"):
        child.ask("input")
    # These exceptions cannot be unpickled, because their constructors take other arguments.
    with pytest.raises(ElmoError, match=r"pip install .*\[that\]'"):
        child.ask("extra")
    with pytest.raises(RuntimeError, match="Unpicklable: 1 and 2"):
        child.ask("other")
    assert child.ask(1) == 41


def test_ask_raises_child_ended_if_the_child_exits(child):
    with pytest.raises(ChildEnded) as caught:
        child.ask("die")
    assert caught.value.status == 7
    with pytest.raises(ChildEnded):
        child.ask(1)


def test_busy_child_exits_when_its_parent_is_killed(helper, tmp_path):
    script = tmp_path / "helper_of_processes.py"
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        time.sleep(0.5)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while os.path.exists(f"/proc/{child}"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_threads_each_divides_cores_evenly_unless_omp_num_threads_is_set(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_each(8) == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    assert [threads_each(count) for count in (1, 3, 16)] == [8, 2, 1]
