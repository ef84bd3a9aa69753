"""Tests of recording SIGINT and SIGTERM, and of restoring the signal handlers."""

import os
import signal
import threading

import pytest

from elmo.train.signals import StopRequest

NUMBERS = (signal.SIGINT, signal.SIGTERM)


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
    with StopRequest() as stop:
        assert stop.number is None
        os.kill(os.getpid(), number)
        assert stop.number == number
        monkeypatch.setattr("elmo.train.signals.REPEAT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_stop_request_ignores_sigterm_that_is_repeated_at_once():
    with StopRequest() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signal_handlers_are_restored_after_an_error():
    with pytest.raises(ValueError, match="failed"), StopRequest():
        raise ValueError("failed")
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2


def test_stop_request_raises_nothing_without_a_signal():
    with StopRequest() as stop:
        stop.raise_()


def test_stop_request_raises_the_exception_for_the_recorded_signal():
    stop = StopRequest()
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
        with StopRequest():
            handlers.extend(signal.getsignal(number) for number in NUMBERS)

    thread = threading.Thread(target=enter_stop_request)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
