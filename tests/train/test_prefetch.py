"""Tests of prefetching in a thread: order, queue length, errors and early termination."""

import threading
import time

import pytest

from elmo.train.prefetch import prefetched


def prefetch_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("ahead", [1, 4, 100])
def test_prefetched_yields_all_items_in_order(ahead):
    assert list(prefetched(range(50), ahead)) == list(range(50))
    assert not prefetch_threads()


def test_prefetched_accepts_an_empty_iterable():
    assert list(prefetched([], 2)) == []


def test_prefetched_limits_the_number_of_items_produced_in_advance():
    produced = []
    fifth_produced = threading.Event()

    def items():
        for number in range(20):
            produced.append(number)
            if number == 4:
                fifth_produced.set()
            yield number

    stream = prefetched(items(), 3)
    assert next(stream) == 0
    # One item was taken, three wait, and a fourth one was being produced.
    assert fifth_produced.wait(120)
    time.sleep(0.3)
    assert produced == [0, 1, 2, 3, 4]
    stream.close()


def test_prefetched_items_are_produced_in_a_background_thread():
    names = list(prefetched((threading.current_thread().name for _ in range(2)), 1))
    assert names[0] == names[1]
    assert names[0].startswith("prefetch")


@pytest.mark.parametrize("error_type", [ValueError, KeyboardInterrupt, SystemExit])
def test_prefetched_raises_an_error_after_all_items_before_it(error_type):
    def items():
        yield 1
        yield 2
        raise error_type("failed")

    stream = prefetched(items(), 5)
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(error_type, match="failed"):
        next(stream)
    assert not prefetch_threads()


@pytest.mark.parametrize("ahead", [1, 3])
def test_closing_the_prefetched_generator_stops_its_thread(ahead):
    def endless():
        while True:
            yield 1

    stream = prefetched(endless(), ahead)
    next(stream)
    assert prefetch_threads()
    stream.close()
    assert not prefetch_threads()


def test_error_in_the_consumer_stops_the_prefetching_thread():
    def take():
        for _ in prefetched(iter(int, 1), 2):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        take()
    deadline = time.monotonic() + 120
    while prefetch_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not prefetch_threads()
