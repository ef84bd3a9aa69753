"""Signals while training: remembered inside, as they were outside."""

import os
import signal
import threading

import pytest

from elmo.train.signals import StopRequest

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _handlers_of_our_own():
    """Whatever a test does, the handlers of the test run come back."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_remembered(number):
    with StopRequest() as stop:
        assert stop.number is None
        os.kill(os.getpid(), number)
        assert stop.number == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_signals_come_back_after_an_error():
    with pytest.raises(ValueError, match="torn"), StopRequest():
        raise ValueError("torn")
    assert [signal.getsignal(each) for each in NUMBERS] == [signal.default_int_handler] * 2


def test_without_a_signal_nothing_stops():
    with StopRequest() as stop:
        stop.raise_()


def test_it_stops_as_the_signal_would():
    stop = StopRequest()
    stop.number = signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        stop.raise_()
    stop.number = signal.SIGTERM
    with pytest.raises(SystemExit) as caught:
        stop.raise_()
    assert caught.value.code == 143


def test_in_another_thread_signals_are_left_alone():
    found = []

    def work():
        with StopRequest():
            found.extend(signal.getsignal(number) for number in NUMBERS)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
