"""Tests of killed jobs and workers: no lost or repeated work, no leftover processes."""

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
    """Return a folder with a model, a text, and the job folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("home")
    write_model(folder / "model")
    write_text(folder / "text.txt", LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sharded_job.ENGINES, "local", in_this_process)
        run_job(folder / "text.txt", folder / "expected", folder / "model", shard_words=SHARD_WORDS)
    return folder


def start(home, output):
    """Start the embed command in a subprocess."""
    arguments = [home / "text.txt", output, "--model", home / "model"]
    arguments += ["--workers", "2", "--shard-words", SHARD_WORDS, "--pretokenized"]
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", "embed", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        # A shell that runs the tests in the background ignores Ctrl-C, also for child processes.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        # Children are listed under the thread that started them.
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += file.read().split()
    except FileNotFoundError:
        return []
    return sorted(set(map(int, children)))


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


def records(output):
    return list((output / "records").glob("0*.json"))


def assert_complete(home, output):
    assert contents(output) == contents(home / "expected")
    with open_embeddings(output) as embeddings:
        assert embeddings.verify() == len(records(output))
        assert [sentence.words for sentence in embeddings] == [line.split() for line in LINES]


def test_job_survives_a_killed_worker_and_resumes_after_being_killed(home, tmp_path):
    """First a worker is killed in the middle of a task, then the whole job."""
    rng, output = random.Random(7), tmp_path / "out"
    with start(home, output) as process:
        wait_for(lambda: len(records(output)) >= 2)
        victim = rng.choice(wait_for(lambda: children_of(process.pid)))
        os.kill(victim, signal.SIGKILL)
        done = len(records(output))
        wait_for(lambda: len(records(output)) >= done + 2)
        # The killed worker is listed until the job has waited for it.
        wait_for(lambda: victim not in children_of(process.pid))
        children = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))
    assert 4 <= len(records(output)) < len(records(home / "expected"))
    assert not (output / "manifest.json").exists()
    with start(home, output) as process:
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert "shards written earlier)" in stdout
    assert_complete(home, output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_all_workers_without_losing_finished_shards(home, tmp_path, number):
    output = tmp_path / "out"
    with start(home, output) as process:
        wait_for(lambda: records(output))
        children = children_of(process.pid)
        assert len(children) == 2
        os.killpg(process.pid, number)
        _, stderr = process.communicate()
    assert process.returncode == 128 + number
    assert "Traceback" not in stderr
    word = "Interrupted" if number == signal.SIGINT else "Terminated"
    note = "Finished shards are kept; run the same command again to resume."
    assert stderr.splitlines()[-1] == f"elmo: {word}. {note}"
    assert not any(os.path.exists(f"/proc/{child}") for child in children)
    assert not list(output.rglob("*.partial"))
    # Every record is correct; the remaining shards are written by the next run.
    for path in records(output):
        assert (home / "expected" / "records" / path.name).read_bytes() == path.read_bytes()


def replace_worker(tmp_path, monkeypatch, body):
    """Make child processes run a worker with the given body instead of the real one."""
    (tmp_path / "other_worker.py").write_text(
        f"import os, time\nfrom elmo.errors import InputError\nclass Worker:\n"
        f"    def __init__(self, job):\n        self.job = job\n"
        f"    def __call__(self, task, report):\n        {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("other_worker", None)
    import other_worker

    monkeypatch.setattr(local_workers, "ShardWorker", other_worker.Worker)


def run_with_one_worker(home, output):
    return run_job(home / "text.txt", output, home / "model", shard_words=SHARD_WORDS, workers=1)


def test_job_fails_after_three_workers_die_on_the_same_task(home, tmp_path, monkeypatch):
    replace_worker(tmp_path, monkeypatch, "report(5); time.sleep(0.1); os.kill(os.getpid(), 9)")
    with pytest.raises(OutputError, match=r"3 workers died while writing shard 0000\d.*SIGKILL"):
        run_with_one_worker(home, tmp_path / "out")
    task = sharded_job.JobFolder(home / "expected").plan().tasks[0]
    message = str(local_workers.workers_died_error(task, ChildEnded(3)))
    assert "(the last one had exit status 3). Finished shards are kept" in message


def test_error_in_a_worker_is_raised_by_the_job(home, tmp_path, monkeypatch):
    replace_worker(tmp_path, monkeypatch, "raise InputError('no such thing')")
    with pytest.raises(InputError, match="no such thing"):
        run_with_one_worker(home, tmp_path / "out")


def test_progress_subtracts_the_unfinished_words_of_a_dead_worker(home, monkeypatch, tmp_path):
    flag = tmp_path / "died"
    body = (
        f"report(7)\n        if not os.path.exists({str(flag)!r}):\n"
        f"            open({str(flag)!r}, 'w').close(); os._exit(1)\n"
        "        return 'record'"
    )
    replace_worker(tmp_path, monkeypatch, body)
    plan = sharded_job.JobFolder(home / "expected").plan()
    advanced = []
    job = SimpleNamespace(n_threads=1)
    records = list(local_workers.run_locally(job, plan.tasks[:1], 4, advanced.append))
    assert records == ["record"]
    assert advanced == [7, -7, 7, plan.tasks[0].n_words - 7]
