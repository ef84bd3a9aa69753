"""Jobs in processes, killed at any moment: nothing lost, nothing doubled, nobody left behind."""

import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from tiny_jobs import contents, in_this_process, make_lines, run_job, write_model, write_text

from elmo.child_processes import ChildEnded
from elmo.embed import local_workers, open_embeddings, sharded_job
from elmo.errors import InputError, OutputError

pytest.importorskip("pyarrow")

LINES = make_lines(20_000)
SHARD_WORDS = 4000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model, a text, and the job as it is where nothing happens to it."""
    folder = tmp_path_factory.mktemp("home")
    write_model(folder / "model")
    write_text(folder / "text.txt", LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sharded_job.ENGINES, "local", in_this_process)
        run_job(folder / "text.txt", folder / "whole", folder / "model", shard_words=SHARD_WORDS)
    return folder


def begin(home, output):
    """Start the command as a user would."""
    words = [home / "text.txt", output, "--model", home / "model"]
    words += ["--workers", "4", "--shard-words", SHARD_WORDS]
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", "embed", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        # A shell that runs the tests in the background has Ctrl-C ignored, children included.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            own = file.read().split()
        # A thread starts its child; the file of the main thread may not name it.
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                own += file.read().split()
    except FileNotFoundError:
        return []
    return sorted(set(map(int, own)))


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def records(output):
    return list((output / "records").glob("0*.json"))


def assert_whole(home, output):
    assert contents(output) == contents(home / "whole")
    with open_embeddings(output) as found:
        assert found.verify() == len(records(output))
        assert [item.words for item in found] == [line.split() for line in LINES]


def test_killed_twice(home, tmp_path):
    """Once a worker in the middle of its work, which the job survives, once the whole job."""
    draw, output = random.Random(7), tmp_path / "out"
    with begin(home, output) as process:
        wait_for(lambda: len(records(output)) >= 2)
        victim = draw.choice(wait_for(lambda: children_of(process.pid)))
        os.kill(victim, signal.SIGKILL)
        done = len(records(output))
        wait_for(lambda: len(records(output)) >= done + 2)
        # The job has to notice it before the system forgets the victim.
        wait_for(lambda: victim not in children_of(process.pid))
        children = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))
    assert 4 <= len(records(output)) < len(records(home / "whole"))
    assert not (output / "manifest.json").exists()
    with begin(home, output) as process:
        told, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "shards before)" in told
    assert_whole(home, output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(home, tmp_path, number):
    output = tmp_path / "out"
    with begin(home, output) as process:
        wait_for(lambda: records(output))
        children = children_of(process.pid)
        assert len(children) == 4
        os.killpg(process.pid, number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not any(os.path.exists(f"/proc/{child}") for child in children)
    assert not list(output.rglob("*.partial"))
    # Every record there is tells the truth; the rest is for the next time.
    for path in records(output):
        assert (home / "whole" / "records" / path.name).read_bytes() == path.read_bytes()


def workers_that(tmp_path, monkeypatch, body):
    """Have children run another worker."""
    (tmp_path / "other_worker.py").write_text(
        f"import os, time\nfrom elmo.errors import InputError\nclass Worker:\n"
        f"    def __init__(self, job):\n        self.job = job\n"
        f"    def __call__(self, task, tell):\n        {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("other_worker", None)
    import other_worker

    monkeypatch.setattr(local_workers, "Worker", other_worker.Worker)


def run_here(home, output):
    return run_job(home / "text.txt", output, home / "model", shard_words=SHARD_WORDS, workers=2)


def test_a_task_that_kills_its_workers(home, tmp_path, monkeypatch):
    workers_that(tmp_path, monkeypatch, "tell(5); time.sleep(0.1); os.kill(os.getpid(), 9)")
    with pytest.raises(OutputError, match=r"3 workers ended too early at shard 0000\d.*SIGKILL"):
        run_here(home, tmp_path / "out")
    task = sharded_job.JobFolder(home / "whole").plan().tasks[0]
    told = str(local_workers.given_up(task, ChildEnded(3)))
    assert "the last one exit status 3; what was finished stays" in told


def test_an_error_of_a_worker_is_that_of_the_job(home, tmp_path, monkeypatch):
    workers_that(tmp_path, monkeypatch, "raise InputError('no such thing')")
    with pytest.raises(InputError, match="no such thing"):
        run_here(home, tmp_path / "out")


def test_words_of_a_dead_worker_are_taken_back(home, monkeypatch, tmp_path):
    flag = tmp_path / "died"
    body = (
        f"tell(7)\n        if not os.path.exists({str(flag)!r}):\n"
        f"            open({str(flag)!r}, 'w').close(); os._exit(1)\n"
        "        return 'record'"
    )
    workers_that(tmp_path, monkeypatch, body)
    plan = sharded_job.JobFolder(home / "whole").plan()
    advanced = []
    told = SimpleNamespace(n_threads=1)
    found = list(local_workers.work_locally(told, plan.tasks[:1], 4, advanced.append))
    assert found == ["record"]
    assert advanced == [7, -7, 7, plan.tasks[0].n_words - 7]
