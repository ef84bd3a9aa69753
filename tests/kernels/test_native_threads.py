"""Tests of the worker threads of the native kernels."""

import concurrent.futures
import os
import threading
import time
from functools import partial

import pytest

from elmo.kernels import native_threads
from elmo.kernels.native_threads import run_tasks, split_range


@pytest.fixture(params=[1, 2, 4])
def n_threads(request, monkeypatch):
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: request.param)
    return request.param


def test_run_tasks_runs_every_task(n_threads):
    done = []
    run_tasks(lambda number=number: done.append(number) for number in range(20))
    assert sorted(done) == list(range(20))
    run_tasks([])


def test_run_tasks_calls_tasks_again_until_they_are_finished(n_threads):
    done = []

    def turns(name):
        for turn in range(3):
            done.append((name, turn))
            yield True

    run_tasks(partial(next, turns(name), False) for name in "abc")
    assert sorted(done) == [(name, turn) for name in "abc" for turn in range(3)]
    if n_threads == 1:
        assert done == [(name, turn) for turn in range(3) for name in "abc"]


def test_run_tasks_runs_tasks_in_parallel(monkeypatch):
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: 2)
    meeting = threading.Barrier(2, timeout=120)
    run_tasks([meeting.wait, meeting.wait])


def test_run_tasks_raises_the_error_of_a_task(n_threads):
    def fail():
        raise ValueError("task failed")

    with pytest.raises(ValueError, match="task failed"):
        run_tasks([fail, fail, fail])
    done = []
    run_tasks([lambda: done.append(1)])
    assert done == [1]


def test_run_tasks_starts_no_task_after_an_error(n_threads):
    done = []

    def turns():
        yield True
        raise ValueError("task failed")

    def endless():
        done.append(1)
        time.sleep(0.001)
        return True

    with pytest.raises(ValueError, match="task failed"):
        run_tasks([endless, partial(next, turns(), False), endless])
    n_done = len(done)
    time.sleep(0.05)
    assert len(done) == n_done


def test_run_tasks_does_not_wait_for_the_tasks_of_another_call(monkeypatch):
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: 2)
    release, busy = threading.Event(), threading.Barrier(3, timeout=120)

    def hold():
        busy.wait()
        release.wait(120)

    other = threading.Thread(target=run_tasks, args=([hold, hold],))
    other.start()
    busy.wait()  # the only thread of the pool is occupied now
    done = []
    run_tasks([partial(done.append, number) for number in range(4)])
    assert done == [0, 1, 2, 3]
    release.set()
    other.join()


def test_run_tasks_waits_for_running_tasks_when_interrupted_repeatedly(monkeypatch):
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: 2)
    meeting, written, waits = threading.Barrier(2, timeout=120), [], []

    def work():
        meeting.wait()
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.2)
        written.append(1)

    def interrupted(futures):
        waits.append(1)
        if len(waits) < 4:
            raise KeyboardInterrupt
        return concurrent.futures.wait(futures)

    monkeypatch.setattr(native_threads, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tasks([work, work])
    assert written == [1]
    assert len(waits) == 4


@pytest.mark.parametrize("work", [0, 1, 2**20, 2**40])
def test_parts_of_split_range_cover_the_whole_range(n_threads, work):
    assert split_range(0, 32, work) == []
    for n in (1, 31, 32, 33, 1000):
        parts = split_range(n, 32, work)
        assert work > 1 or len(parts) <= 2 * n_threads
        assert n_threads > 1 or len(parts) == 1
        assert [first for first, _ in parts] == [0, *(last for _, last in parts[:-1])]
        assert parts[-1][1] == n
        assert all((last - first) % 32 == 0 for first, last in parts[:-1])


def test_parts_of_split_range_shrink_to_the_minimum_work(monkeypatch):
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: 2)
    assert split_range(1024, 64, 2**10) == [(0, 1024)]
    assert split_range(1024, 64, 2**12) == [(0, 256), (256, 512), (512, 768), (768, 1024)]
    widths = [last - first for first, last in split_range(4096, 64, 2**18)]
    assert widths[0] == 1024
    assert widths == sorted(widths, reverse=True)
    assert widths[-2] * 2**18 == native_threads.MIN_TASK_WORK
    monkeypatch.setattr(native_threads.torch, "get_num_threads", lambda: 1)
    assert split_range(4096, 64, 2**18) == [(0, 4096)]


def test_free_cores_are_the_cores_of_other_openmp_threads(monkeypatch):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    assert native_threads._free_cores() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "FALSE")
    assert native_threads._free_cores() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    caller_cores, all_cores = {0}, {0, 1, 2}
    monkeypatch.setattr(
        os,
        "sched_getaffinity",
        lambda thread: caller_cores if thread == 0 else all_cores,
        raising=False,
    )
    if os.path.isdir("/proc/self/task"):
        assert native_threads._free_cores() == {1, 2}
