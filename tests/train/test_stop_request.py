"""Tests of stop requests: signals, the time limit, and their synchronization."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from elmo.config import RunConfig
from elmo.train.stop_request import StopRequest

NUMBERS = (signal.SIGINT, signal.SIGTERM)


def make_stop(total=None, **run):
    """Return a stop request; with a total, of two processes that sum up to it."""

    def all_reduce(value, reduce_op):
        assert reduce_op == "sum"
        values.append(float(value))
        return torch.tensor(float(total))

    values = []
    fabric = SimpleNamespace(
        world_size=1 if total is None else 2, device=torch.device("cpu"), all_reduce=all_reduce
    )
    stop = StopRequest(fabric, RunConfig(**run))
    return stop if total is None else (stop, values)


@pytest.fixture(autouse=True)
def _default_handlers():
    """Install the default signal handlers for a test, and restore the previous ones afterwards."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_stop_request_records_the_first_signal(number, monkeypatch):
    stop = make_stop()
    with stop.recorded_signals():
        assert stop.number is None
        assert not stop.is_signaled(1)
        os.kill(os.getpid(), number)
        assert stop.number == number
        assert stop.is_signaled(1)
        monkeypatch.setattr("elmo.train.stop_request.REPEAT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_stop_request_ignores_sigterm_that_is_repeated_at_once():
    stop = make_stop()
    with stop.recorded_signals():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signal_handlers_are_restored_after_an_error():
    with pytest.raises(ValueError, match="failed"), make_stop().recorded_signals():
        raise ValueError("failed")
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2


def test_stop_request_raises_nothing_without_a_signal():
    stop = make_stop()
    with stop.recorded_signals():
        stop.raise_()


def test_stop_request_raises_the_exception_for_the_recorded_signal():
    stop = make_stop()
    stop.number = signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        stop.raise_()
    stop.number = signal.SIGTERM
    with pytest.raises(SystemExit) as caught:
        stop.raise_()
    assert caught.value.code == 143


def test_signal_handlers_are_not_changed_outside_the_main_thread():
    handlers = []

    def enter_stop_request():
        with make_stop().recorded_signals():
            handlers.extend(signal.getsignal(number) for number in NUMBERS)

    thread = threading.Thread(target=enter_stop_request)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ------------------------------------------------------------------------------------ time limit


def test_time_limit_starts_when_it_is_started(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stop = make_stop(max_minutes=2)
    assert not stop.is_out_of_time(1)
    stop.start_time_limit()
    now += 119
    assert not stop.is_out_of_time(1)
    now += 1
    assert stop.is_out_of_time(1)


def test_run_without_time_limit_is_never_out_of_time(monkeypatch):
    stop, values = make_stop(total=1)
    stop.start_time_limit()
    monkeypatch.setattr(time, "monotonic", lambda: 1e12)
    assert not stop.is_out_of_time(RunConfig().log_every)
    # The processes do not wait for each other.
    assert not values


# ------------------------------------------------------------------------------------ processes


def test_signal_is_synchronized_between_processes_in_logged_steps():
    stop, values = make_stop(total=1, log_every=5)
    stop.number = signal.SIGTERM
    assert not any(map(stop.is_signaled, range(1, 5)))
    assert not values
    assert stop.is_signaled(5)
    assert values == [1]
    assert stop.number == signal.SIGTERM


def test_process_without_signal_stops_with_the_others_as_after_ctrl_c():
    stop, values = make_stop(total=1, log_every=5)
    assert stop.is_signaled(5)
    assert (values, stop.number) == ([0], signal.SIGINT)
    stop, values = make_stop(total=0, log_every=5)
    assert not stop.is_signaled(5)
    assert (values, stop.number) == ([0], None)


def test_time_limit_is_synchronized_between_processes_in_logged_steps():
    stop, values = make_stop(total=1, log_every=5, max_minutes=60)
    stop.start_time_limit()
    assert not stop.is_out_of_time(4)
    assert not values
    assert stop.is_out_of_time(5)
    assert values == [0]
