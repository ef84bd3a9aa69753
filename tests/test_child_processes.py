"""Children that answer: notes before answers, errors that travel, deaths that are noticed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from elmo.child_processes import Child, ChildEnded, threads_each
from elmo.errors import ElmoError, InputError

# Where children find what they are to do.
HELPER = """
import os, time
from elmo.errors import InputError, MissingExtra
from elmo.child_processes import Child

class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

class Work:
    def __init__(self, base):
        print("a library says something")
        self.base = base
    def __call__(self, request, tell):
        if request == "die":
            os._exit(7)
        if request == "variable":
            return os.environ.get("SOME_VARIABLE")
        if request == "sleep":
            time.sleep(600)
        if isinstance(request, str):
            raise {"input": InputError("no text"), "extra": MissingExtra("this", "that"),
                   "other": Unpicklable(1, 2)}[request]
        tell("half")
        return self.base + request

if __name__ == "__main__":
    child = Child(Work, 0)
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
    child = Child(helper.Work, 40, environment={"SOME_VARIABLE": "here"})
    yield child
    child.close()


def test_answers_and_notes(child):
    notes = []
    assert child.ask(2, notes.append) == 42
    assert child.ask(3) == 43
    assert child.ask("variable") == "here"
    assert notes == ["half"]


def test_errors_travel(child):
    with pytest.raises(InputError, match="no text"):
        child.ask("input")
    # Made of other arguments than they keep, they would not come out of the pipe again.
    with pytest.raises(ElmoError, match=r"pip install 'elmo-torch\[that\]'"):
        child.ask("extra")
    with pytest.raises(RuntimeError, match="Unpicklable: 1 and 2"):
        child.ask("other")
    assert child.ask(1) == 41


def test_death(child):
    with pytest.raises(ChildEnded) as caught:
        child.ask("die")
    assert caught.value.status == 7
    with pytest.raises(ChildEnded):
        child.ask(1)


def test_a_child_ends_with_its_parent_in_the_middle_of_its_work(helper, tmp_path):
    script = tmp_path / "helper_of_processes.py"
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        time.sleep(0.5)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while os.path.exists(f"/proc/{child}"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_threads_are_shared_out(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_each(8) == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    assert [threads_each(count) for count in (1, 3, 16)] == [8, 2, 1]
