"""Items made ahead in a thread: their order, how many, errors, an early end."""

import threading
import time

import pytest

from elmo.train.prefetch import prefetched


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@pytest.mark.parametrize("ahead", [1, 4, 100])
def test_all_items_in_order(ahead):
    assert list(prefetched(range(50), ahead)) == list(range(50))
    assert not workers()


def test_nothing():
    assert list(prefetched([], 2)) == []


def test_items_are_made_ahead_but_not_too_many():
    made = []
    taken = threading.Event()

    def items():
        for number in range(20):
            made.append(number)
            if number == 4:
                taken.set()
            yield number

    stream = prefetched(items(), 3)
    assert next(stream) == 0
    # One was taken, three lie ready, and one more waits for its place.
    assert taken.wait(120)
    time.sleep(0.3)
    assert made == [0, 1, 2, 3, 4]
    stream.close()


def test_an_item_is_made_in_another_thread():
    names = list(prefetched((threading.current_thread().name for _ in range(2)), 1))
    assert names == ["prefetch", "prefetch"]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_comes_in_its_turn(kind):
    def items():
        yield 1
        yield 2
        raise kind("torn")

    stream = prefetched(items(), 5)
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(kind, match="torn"):
        next(stream)
    assert not workers()


@pytest.mark.parametrize("ahead", [1, 3])
def test_an_early_end_stops_the_thread(ahead):
    def endless():
        while True:
            yield 1

    stream = prefetched(endless(), ahead)
    next(stream)
    assert workers()
    stream.close()
    assert not workers()


def test_an_error_of_the_taker_stops_the_thread():
    def take():
        for _ in prefetched(iter(int, 1), 2):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        take()
    deadline = time.monotonic() + 120
    while workers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not workers()
