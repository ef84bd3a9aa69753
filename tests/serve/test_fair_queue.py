"""Tests of the queue: limits, turns, slices, and cancellation, without HTTP."""

import contextlib
import gc
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_operation import FakeOperation
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.serve.fair_queue import FairQueue, QueueClosed, QueueFull
from elmo.serve.queued_request import QueuedRequest

OPERATIONS = [FakeOperation(), FakeOperation()]


def make_queue(max_words=10_000, max_requests=100, slice_words=10):
    return FairQueue(max_words=max_words, max_requests=max_requests, slice_words=slice_words)


def put(queue, costs, host="a", operation=OPERATIONS[0]):
    request = QueuedRequest(operation, costs, host)
    queue.put(request)
    return request


def taken(batch):
    return [(part.request, part.items) for part in batch.slices]


def test_take_returns_everything_that_fits_at_once():
    queue = make_queue()
    first, second = put(queue, [3, 4]), put(queue, [5], "b")
    assert taken(queue.take(100)) == [(first, [3, 4]), (second, [5])]
    assert (queue.n_words, queue.n_requests) == (0, 0)


def test_thread_that_waits_for_much_takes_no_small_batch():
    queue = FairQueue(max_words=100, max_requests=10, much_words=10)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(queue.take, 100, much=True)
        put(queue, [9])
        with pytest.raises(TimeoutError):
            future.result(0.1)
        put(queue, [1])
        assert future.result(10).n_words == 10
        future = pool.submit(queue.take, 100, much=True)
        rest = put(queue, [5])
        queue.close()
        assert future.result(10) is None
    assert taken(queue.take(100)) == [(rest, [5])]


def test_hosts_take_turns_whatever_their_number_of_requests():
    queue = make_queue()
    of_a = [put(queue, [10], "a") for _ in range(4)]
    of_b = [put(queue, [10], "b")]
    order = [part.request for _ in range(5) for part in queue.take(10).slices]
    assert order == [of_a[0], of_b[0], *of_a[1:]]


def test_requests_of_a_host_take_turns_one_slice_each():
    queue = make_queue()
    long, short = put(queue, [10, 10, 10]), put(queue, [10])
    order = [part.request for _ in range(4) for part in queue.take(10).slices]
    assert order == [long, short, long, long]


def test_long_request_spans_several_batches():
    queue = make_queue()
    request = put(queue, [4] * 5)
    queue.close()
    sizes = []
    while (batch := queue.take(8)) is not None:
        sizes.append(len(batch.slices[0].items))
    assert sizes == [2, 2, 1]
    assert request.is_taken


def test_item_longer_than_a_batch_is_taken_alone():
    queue = make_queue()
    short, long = put(queue, [3], "a"), put(queue, [50], "b")
    assert taken(queue.take(20)) == [(short, [3])]
    assert taken(queue.take(20)) == [(long, [50])]


def test_request_that_does_not_fit_is_the_first_of_the_next_batch():
    queue = make_queue(slice_words=20)
    first, big = put(queue, [10], "a"), put(queue, [15], "b")
    small = put(queue, [5], "c")
    assert [part.request for part in queue.take(20).slices] == [first]
    put(queue, [5], "a")
    assert [part.request for part in queue.take(20).slices] == [big, small]


def test_request_that_is_shorter_than_a_turn_is_not_split_between_batches():
    queue = make_queue()
    first, second, third = (put(queue, [3, 3]) for _ in range(3))
    assert taken(queue.take(10)) == [(first, [3, 3])]
    assert taken(queue.take(10)) == [(second, [3, 3])]
    assert taken(queue.take(10)) == [(third, [3, 3])]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 10), min_size=1, max_size=60), st.integers(10, 40))
def test_wait_is_at_most_what_was_queued_before_and_one_batch(costs, max_words):
    queue = make_queue(max_words=100, max_requests=1000)
    requests, passed, waiting = {}, 0, iter(costs)
    is_over = False
    while not is_over or queue.n_requests:
        while not is_over and not queue.is_full("a"):
            cost = next(waiting, None)
            is_over = cost is None
            if not is_over:
                before = queue.n_words
                with contextlib.suppress(QueueFull):
                    requests[put(queue, [cost])] = passed + before + cost + max_words
        if queue.n_requests:
            batch = queue.take(max_words)
            passed += batch.n_words
            assert all(passed <= requests[part.request] for part in batch.slices)


def test_long_request_is_not_overtaken_without_end():
    queue = make_queue(max_words=200)
    long = put(queue, [10] * 10)
    n_taken = 0
    while not long.is_taken:
        while queue.n_words <= 180:
            put(queue, [10])
        n_taken += queue.take(20).n_words
    # Itself, what may overtake it, and a batch.
    assert n_taken <= 100 + 200 + 20


def test_late_request_is_taken_before_others_and_ends_a_batch_of_another_operation():
    queue = make_queue(max_words=30, slice_words=2)
    late = put(queue, [2] * 10, "a", OPERATIONS[1])
    queue.take(2)
    for _ in range(2):
        other = put(queue, [10], "b")
        assert taken(queue.take(2)) == [(late, [2])]
        assert taken(queue.take(100)) == [(other, [10])]
    first, second = put(queue, [10], "b"), put(queue, [4], "c")
    assert taken(queue.take(2)) == [(late, [2])]
    # 30 positions of later requests are taken with `first`.
    assert taken(queue.take(100)) == [(first, [10])]
    assert taken(queue.take(100)) == [(late, [2])] * 6
    assert taken(queue.take(100)) == [(second, [4])]


def test_batch_has_one_operation_and_others_keep_their_turn():
    queue = make_queue()
    first = put(queue, [1], "a", OPERATIONS[0])
    other = put(queue, [1], "b", OPERATIONS[1])
    third = put(queue, [1], "c", OPERATIONS[0])
    batch = queue.take(100)
    assert batch.operation is OPERATIONS[0]
    assert [part.request for part in batch.slices] == [first, third]
    put(queue, [1], "a", OPERATIONS[0])
    assert [part.request for part in queue.take(100).slices] == [other]


def test_put_rejects_over_limits():
    queue = make_queue(max_words=10, max_requests=2)
    with pytest.raises(QueueFull):
        put(queue, [11])
    put(queue, [10])
    assert queue.is_full("a")
    with pytest.raises(QueueFull):
        put(queue, [1])
    queue.take(100)
    put(queue, [1])
    put(queue, [1])
    with pytest.raises(QueueFull):
        put(queue, [1])
    assert queue.n_requests == 2


def test_host_with_few_positions_is_admitted_when_another_has_filled_the_queue():
    queue = make_queue(max_words=160, max_requests=32)
    for _ in range(16):
        put(queue, [10], "heavy")
    assert queue.is_full("heavy")
    assert not queue.is_full("light")
    with pytest.raises(QueueFull):
        put(queue, [11], "light")
    put(queue, [10], "light")
    assert queue.is_full("light")  # it has a sixteenth now
    for host in "abc":
        put(queue, [10], host)
    assert queue.is_full("d")  # the second limit, 200
    assert queue.n_words == 200


def test_host_with_few_requests_is_admitted_when_another_has_filled_the_queue():
    queue = make_queue(max_requests=32)
    for _ in range(32):
        put(queue, [1], "heavy")
    with pytest.raises(QueueFull):
        put(queue, [1], "heavy")
    requests = [put(queue, [1], "light") for _ in range(2)]
    with pytest.raises(QueueFull):
        put(queue, [1], "light")
    requests[0].future.cancel()
    put(queue, [1], "light")


def test_closed_queue_can_be_emptied():
    queue = make_queue()
    request = put(queue, [1])
    queue.close()
    with pytest.raises(QueueClosed):
        put(queue, [1])
    assert taken(queue.take(10)) == [(request, [1])]
    assert queue.take(10) is None


def test_cancelled_request_leaves_the_queue_at_once():
    queue = make_queue()
    request, other = put(queue, [5, 10]), put(queue, [7])
    queue.take(5)
    request.future.cancel()
    assert (queue.n_words, queue.n_requests) == (7, 1)
    assert taken(queue.take(100)) == [(other, [7])]


def test_failed_request_leaves_the_queue():
    queue = make_queue()
    request = put(queue, [10, 10])
    queue.take(10)
    request.fail(ValueError())
    assert (queue.n_words, queue.n_requests) == (0, 0)


STEPS = st.one_of(
    st.tuples(
        st.just("put"),
        st.lists(st.integers(1, 30), min_size=1, max_size=6),
        st.sampled_from("abc"),
        st.sampled_from(OPERATIONS),
    ),
    st.tuples(st.just("take"), st.integers(1, 40)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(STEPS, min_size=1, max_size=30), st.integers(1, 6), st.integers(30, 40))
def test_request_is_complete_after_queue_itself_max_words_and_a_batch(steps, n_slices, max_words):
    queue = make_queue(max_words=100, max_requests=100)
    n_taken, bounds = 0, {}

    def add(costs, host, operation):
        bound = n_taken + queue.n_words + sum(costs) + 100 + max_words
        bounds[put(queue, costs, host, operation)] = bound

    add([10] * n_slices, "a", OPERATIONS[0])
    for _ in range(20):
        for step in steps:  # what does not fit arrives in the next round
            if step[0] == "put":
                with contextlib.suppress(QueueFull):
                    add(*step[1:])
            elif step[0] == "cancel" and step[1] < len(bounds):
                list(bounds)[-step[1]].future.cancel()
        if queue.n_requests:
            batch = queue.take(max_words)
            n_taken += batch.n_words
            assert all(n_taken <= bounds[part.request] for part in batch.slices)


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=40))
def test_every_item_is_taken_once_in_order_unless_cancelled(steps):
    queue = make_queue(max_words=100, max_requests=8)
    requests, seen, cancelled = [], Counter(), set()

    def take(max_words):
        batch = queue.take(max_words)
        if batch is None:
            return False
        assert batch.slices
        assert batch.n_words <= max_words or len(batch.slices[0].items) == len(batch.slices) == 1
        for part in batch.slices:
            assert part.request.operation is batch.operation
            assert part.request not in cancelled
            assert part.start == seen[part.request] < part.stop
            assert part.n_words <= 10 or len(part.items) == 1
            seen[part.request] = part.stop
        return True

    for step in steps:
        if step[0] == "put":
            try:
                requests.append(put(queue, *step[1:]))
            except QueueFull:
                waiting = [item for item in requests if not item.is_taken and item not in cancelled]
                words = sum(item.n_words for item in waiting)
                assert len(waiting) == 8 or words + sum(step[1]) > 100
        elif step[0] == "take" and queue.n_requests:
            take(step[1])
        elif step[0] == "cancel" and step[1] < len(requests):
            request = requests[step[1]]
            if not request.is_taken:
                cancelled.add(request)
            request.future.cancel()
        waiting = [item for item in requests if not item.is_taken and item not in cancelled]
        assert queue.n_requests == len(waiting) <= 8 + 2
        assert queue.n_words <= 100 + 25
        assert queue.n_words == sum(item.n_words for item in waiting)
    queue.close()
    while take(25):
        pass
    for request in requests:
        assert request in cancelled or seen[request] == len(request.items)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_finished_request_is_freed_without_the_garbage_collector(is_cancelled):
    queue = make_queue()
    gc.collect()
    gc.disable()
    try:
        request = put(queue, [1])
        future = request.future
        if is_cancelled:
            future.cancel()
        else:
            queue.take(10)
            request.add_results(0, [2])
        reference = weakref.ref(request)
        del request
        assert reference() is None
        assert future.done()
    finally:
        gc.enable()
