"""Tests of the worker: batches, errors of single requests, cancellation, and its end."""

import os
import sys
import threading

import pytest
from fake_operation import FakeOperation

from elmo.errors import InputError
from elmo.serve.batch_worker import DECAY, BatchWorker
from elmo.serve.fair_queue import FairQueue
from elmo.serve.queued_request import QueuedRequest
from elmo.serve.thread_priority import COMPUTE_NICENESS


class Setup:
    """A queue and a worker, whose batches wait for `gate` until it is opened."""

    def __init__(self, batch_words=100, n_threads=1, **limits):
        self.queue = FairQueue(max_words=10_000, max_requests=100, **limits)
        self.reports = []
        self.worker = BatchWorker(
            self.queue, batch_words=batch_words, n_threads=n_threads, report=self.reports.append
        )
        self.gate = threading.Event()
        self.operation = FakeOperation(gate=self.gate)
        self.worker.start()

    def put(self, *items, host=""):
        request = QueuedRequest(self.operation, items, host)
        self.queue.put(request)
        return request.future

    def hold(self):
        """Keep the worker busy, so that the next requests are computed together."""
        future = self.put(1)
        assert self.operation.running.wait(10)
        return future


@pytest.fixture
def held():
    setup = Setup()
    first = setup.hold()
    yield setup
    setup.gate.set()
    setup.queue.close()
    assert setup.worker.join(10)
    assert first.result(0) == [2]


def test_requests_that_arrive_during_a_batch_form_the_next_one(held):
    futures = [held.put(number, number + 1) for number in range(1, 4)]
    held.gate.set()
    assert [future.result(10) for future in futures] == [[2, 4], [4, 6], [6, 8]]
    assert held.operation.batches == [[1], [1, 2, 2, 3, 3, 4]]


def test_failure_of_one_request_does_not_affect_others_of_its_batch(held):
    good, bad, broken = held.put(3), held.put(4, "bad"), held.put("broken")
    last = held.put(5)
    held.gate.set()
    assert good.result(10) == [6]
    assert last.result(10) == [10]
    assert isinstance(bad.exception(10), InputError)
    assert isinstance(broken.exception(10), ZeroDivisionError)


def test_wrong_number_of_results_is_an_error(held, monkeypatch):
    monkeypatch.setattr(held.operation, "run", lambda items: [1])
    future = held.put(1, 2)
    held.gate.set()
    assert isinstance(future.exception(10), RuntimeError)


def test_cancelled_requests_are_not_computed(held):
    kept, cancelled = held.put(3), held.put(4)
    assert cancelled.cancel()
    assert held.queue.n_words == 3
    held.gate.set()
    assert kept.result(10) == [6]
    assert held.operation.batches == [[1], [3]]


def test_rest_of_a_request_is_not_computed_after_cancellation():
    setup = Setup(batch_words=10)
    future = setup.put(10, 10, 10)
    assert setup.operation.running.wait(10)
    assert future.cancel()
    setup.gate.set()
    setup.queue.close()
    assert setup.worker.join(10)
    assert setup.operation.batches == [[10]]


def test_accepted_requests_are_computed_after_close(held):
    futures = [held.put(number) for number in range(1, 20)]
    held.queue.close()
    held.gate.set()
    assert [future.result(10) for future in futures] == [[2 * n] for n in range(1, 20)]


def test_seconds_of_work_include_the_batch_in_progress(held):
    held.worker._words, held.worker._seconds = 20.0, 2.0
    held.put(29)  # the batch in progress has one position
    assert held.worker.seconds_of_work == 3.0


def test_worker_continues_after_an_error_of_the_report(held):
    held.worker._report = lambda report: 1 / 0
    held.gate.set()
    assert [held.put(number).result(10) for number in (2, 3)] == [[4], [6]]


def test_reports_have_words_and_waits_and_determine_the_rate(held):
    assert held.worker.words_per_second is None
    assert held.worker.seconds_of_work == 0
    held.put(30)
    held.gate.set()
    held.queue.close()
    assert held.worker.join(10)
    first, second = held.reports
    assert (first.n_words, second.n_words) == (1, 30)
    assert (second.operation, second.subject) == ("fake", "model")
    assert second.waits[0] >= 0
    assert held.worker.words_per_second > 0


class BatchesWithGates(FakeOperation):
    """Doubles numbers. A batch waits until the gate of its first item is opened."""

    def __init__(self, *firsts):
        super().__init__()
        self.gates = {first: threading.Event() for first in firsts}
        self.begun = {first: threading.Event() for first in firsts}

    def run(self, items):
        self.begun[items[0]].set()
        assert self.gates[items[0]].wait(10)
        return [2 * item for item in items]


@pytest.fixture
def pair():
    setup = Setup(batch_words=20, n_threads=2, much_words=10, slice_words=20)
    setup.operation = BatchesWithGates(1, 9, 12, 15)
    first = setup.put(1)
    assert setup.operation.begun[1].wait(10)
    yield setup
    for gate in setup.operation.gates.values():
        gate.set()
    setup.queue.close()
    assert setup.worker.join(10)
    assert first.result(0) == [2]


def test_second_batch_begins_during_the_first_one_if_there_is_much(pair):
    little = pair.put(9)
    assert not pair.operation.begun[9].wait(0.1)
    assert pair.queue.n_words == 9
    more = pair.put(3)
    assert pair.operation.begun[9].wait(10)
    pair.operation.gates[9].set()
    assert [little.result(10), more.result(10)] == [[18], [6]]
    assert not pair.operation.gates[1].is_set()


def test_results_have_the_order_of_the_items_if_the_second_batch_ends_first(pair):
    request = pair.put(12, 15)
    assert pair.operation.begun[12].wait(10)
    pair.operation.gates[1].set()  # the first thread takes the rest of the request
    assert pair.operation.begun[15].wait(10)
    pair.operation.gates[15].set()
    assert not request.done()
    pair.operation.gates[12].set()
    assert request.result(10) == [24, 30]


def test_rate_counts_time_with_two_batches_once(pair, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("elmo.serve.batch_worker.time.monotonic", lambda: now[0])
    pair.worker._counted_until = 100.0
    second = pair.put(12)
    assert pair.operation.begun[12].wait(10)
    now[0] = 104.0
    pair.operation.gates[12].set()
    assert second.result(10) == [24]
    while len(pair.reports) < 1:
        threading.Event().wait(0.001)
    assert pair.worker.words_per_second == 3.0
    assert pair.worker.seconds_of_work == 1 / 3.0
    now[0] = 105.0
    pair.operation.gates[1].set()
    while len(pair.reports) < 2:
        threading.Event().wait(0.001)
    assert pair.worker.words_per_second == pytest.approx((DECAY * 12 + 1) / (DECAY * 4 + 1))
    assert pair.reports[0].seconds == 4.0


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_worker_computes_with_a_lower_priority_than_other_threads():
    class Priority(FakeOperation):
        def run(self, items):
            return [os.nice(0)]

    setup = Setup()
    request = QueuedRequest(Priority(), [1])
    setup.queue.put(request)
    assert request.future.result(10) == [min(19, os.nice(0) + COMPUTE_NICENESS)]
    setup.queue.close()
    assert setup.worker.join(10)
