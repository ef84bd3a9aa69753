"""Threads and memory of the compiled kernels."""

import os
import threading

import pytest

from elmo.kernels import native_calls
from elmo.kernels.native_calls import room, shares, together


@pytest.fixture(params=[1, 2, 4])
def threads(request, monkeypatch):
    monkeypatch.setattr(native_calls.torch, "get_num_threads", lambda: request.param)
    return request.param


def test_all_tasks_are_done(threads):
    done = []
    together(lambda number=number: done.append(number) for number in range(20))
    assert sorted(done) == list(range(20))
    together([])


def test_tasks_side_by_side(monkeypatch):
    monkeypatch.setattr(native_calls.torch, "get_num_threads", lambda: 2)
    meeting = threading.Barrier(2, timeout=120)
    together([meeting.wait, meeting.wait])


def test_an_error_of_a_task(threads):
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        together([fail, fail, fail])
    done = []
    together([lambda: done.append(1)])
    assert done == [1]


def test_shares_are_the_whole(threads):
    assert shares(0, 32) == []
    for n in (1, 31, 32, 33, 1000):
        pieces = shares(n, 32)
        assert len(pieces) <= 2 * threads
        assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
        assert pieces[-1][1] == n
        assert all((last - first) % 32 == 0 for first, last in pieces[:-1])


def test_memory_is_used_again_and_begins_with_a_line():
    first = room("test", 100)
    assert first % native_calls.LINE == 0
    assert room("test", 50) == first
    with_other_thread = []
    thread = threading.Thread(target=lambda: with_other_thread.append(room("test", 100)))
    thread.start()
    thread.join()
    assert with_other_thread[0] != first


def test_threads_are_freed_of_openmp(monkeypatch):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    assert native_calls._places() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "FALSE")
    assert native_calls._places() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    own, others = {0}, {0, 1, 2}
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda thread: own if thread == 0 else others, raising=False
    )
    if os.path.isdir("/proc/self/task"):
        assert native_calls._places() == {1, 2}
