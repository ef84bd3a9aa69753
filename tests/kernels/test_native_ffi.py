"""Threads and memory of the compiled kernels."""

import concurrent.futures
import os
import threading
import time
from functools import partial

import pytest

from elmo.kernels import native_ffi
from elmo.kernels.native_ffi import room, shares, together


@pytest.fixture(params=[1, 2, 4])
def threads(request, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: request.param)
    return request.param


def test_all_tasks_are_done(threads):
    done = []
    together(lambda number=number: done.append(number) for number in range(20))
    assert sorted(done) == list(range(20))
    together([])


def test_a_task_in_turns(threads):
    done = []

    def turns(name):
        for turn in range(3):
            done.append((name, turn))
            yield True

    together(partial(next, turns(name), False) for name in "abc")
    assert sorted(done) == [(name, turn) for name in "abc" for turn in range(3)]
    if threads == 1:
        assert done == [(name, turn) for turn in range(3) for name in "abc"]


def test_tasks_side_by_side(monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 2)
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


def test_nothing_is_begun_after_an_error(threads):
    done = []

    def turns():
        yield True
        raise ValueError("no")

    def endless():
        done.append(1)
        time.sleep(0.001)
        return True

    with pytest.raises(ValueError, match="no"):
        together([endless, partial(next, turns(), False), endless])
    n_done = len(done)
    time.sleep(0.05)
    assert len(done) == n_done


def test_a_call_does_not_wait_for_the_tasks_of_another(monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 2)
    let_go, busy = threading.Event(), threading.Barrier(3, timeout=120)

    def hold():
        busy.wait()
        let_go.wait(120)

    other = threading.Thread(target=together, args=([hold, hold],))
    other.start()
    busy.wait()  # the one thread beside callers is taken now
    done = []
    together([partial(done.append, number) for number in range(4)])
    assert done == [0, 1, 2, 3]
    let_go.set()
    other.join()


def test_interrupted_again_and_again_it_waits_for_what_is_being_written(monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 2)
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

    monkeypatch.setattr(native_ffi, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        together([work, work])
    assert written == [1]
    assert len(waits) == 4


@pytest.mark.parametrize("work", [0, 1, 2**20, 2**40])
def test_shares_are_the_whole(threads, work):
    assert shares(0, 32, work) == []
    for n in (1, 31, 32, 33, 1000):
        pieces = shares(n, 32, work)
        assert work > 1 or len(pieces) <= 2 * threads
        assert threads > 1 or len(pieces) == 1
        assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
        assert pieces[-1][1] == n
        assert all((last - first) % 32 == 0 for first, last in pieces[:-1])


def test_much_work_is_shared_out_until_little_is_left(monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 2)
    assert shares(1024, 64, 2**10) == [(0, 1024)]
    assert shares(1024, 64, 2**12) == [(0, 256), (256, 512), (512, 768), (768, 1024)]
    widths = [last - first for first, last in shares(4096, 64, 2**18)]
    assert widths[0] == 1024
    assert widths == sorted(widths, reverse=True)
    assert widths[-2] * 2**18 == native_ffi.WORTH_A_TASK
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 1)
    assert shares(4096, 64, 2**18) == [(0, 4096)]


def test_memory_is_used_again_and_begins_with_a_line():
    first = room("test", 100)
    assert first % native_ffi.LINE == 0
    assert room("test", 50) == first
    with_other_thread = []
    thread = threading.Thread(target=lambda: with_other_thread.append(room("test", 100)))
    thread.start()
    thread.join()
    assert with_other_thread[0] != first


def test_threads_are_freed_of_openmp(monkeypatch):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    assert native_ffi._places() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "FALSE")
    assert native_ffi._places() == set()
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    own, others = {0}, {0, 1, 2}
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda thread: own if thread == 0 else others, raising=False
    )
    if os.path.isdir("/proc/self/task"):
        assert native_ffi._places() == {1, 2}
