"""Tests of the duration of training steps measured in a dry run."""

from itertools import repeat
from types import SimpleNamespace

import pytest
import torch

from elmo.train import dry_run
from elmo.train.dry_run import TIMED, WARM_UP, step_seconds

N_STEPS = 20


@pytest.fixture
def machine(monkeypatch):
    """Simulate a machine; return a function that measures a model with the given durations."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(dry_run.time, "monotonic", lambda: clock.now)

    def measure(fixed, seconds_per_time_step, can_shorten=True):
        calls = []

        def step(n_steps):
            calls.append(n_steps)
            clock.now += fixed + seconds_per_time_step * n_steps
            return SimpleNamespace(norm=1.0)

        def shorten(batch, n_steps):
            n_steps = min(batch, n_steps)
            return n_steps, n_steps / batch

        start = clock.now
        result = step_seconds(step, repeat(N_STEPS), shorten if can_shorten else None)
        return result, calls, clock.now - start

    return measure


def test_fast_steps_are_measured_completely(machine):
    (seconds, is_measured), calls, spent = machine(0.001, 0.001)
    assert is_measured
    assert seconds == pytest.approx(0.021)
    assert calls == [1, 1, *[N_STEPS] * (WARM_UP + TIMED)]
    assert spent < 1


def test_slow_steps_are_estimated_from_their_parts_within_the_limit(machine):
    (seconds, is_measured), calls, spent = machine(1.0, 2.0)
    assert not is_measured
    assert calls == [1, 2]
    assert seconds == pytest.approx(1 + 2 * N_STEPS)
    assert spent <= dry_run.MAX_SECONDS


def test_very_slow_step_is_estimated_from_one_time_step(machine):
    (seconds, is_measured), calls, spent = machine(10.0, 5.0)
    assert (is_measured, calls, spent) == (False, [1], 15)
    assert seconds == pytest.approx(15 * N_STEPS)


def test_whole_steps_of_medium_speed_stop_at_the_limit(machine):
    (seconds, is_measured), _, spent = machine(0.1, 0.05)
    assert is_measured
    assert seconds == pytest.approx(1.1)
    assert spent < dry_run.MAX_SECONDS + 1.2


def test_batches_that_cannot_be_shortened_are_timed_at_least_once_after_warm_up(machine):
    (seconds, is_measured), calls, _ = machine(20.0, 0.0, can_shorten=False)
    assert is_measured
    assert seconds == pytest.approx(20)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("processes", "device", "may_shorten"),
    [(1, "cpu", True), (2, "cpu", False), (1, "cuda", False)],
)
def test_dry_run_reports_speed_and_duration(monkeypatch, processes, device, may_shorten):
    """Only a single process on a CPU may measure parts of a step."""
    trainable = SimpleNamespace(
        tokens_per_step=2560, n_steps=1000, batches=lambda first: repeat(first), shorten=object()
    )
    arguments = []

    def step_seconds(step, batches, shorten):
        arguments.append((step, next(batches), shorten))
        return 0.25, shorten is None

    monkeypatch.setattr(dry_run, "step_seconds", step_seconds)
    fabric = SimpleNamespace(world_size=processes, device=torch.device(device))
    note = dry_run.dry_run(trainable, len, fabric)
    assert arguments == [(len, 0, trainable.shorten if may_shorten else None)]
    estimated = " (estimated from parts of a step)" if may_shorten else ""
    assert note == (
        f"dry run, nothing written; 10,240 tokens/s{estimated}: the run would take about 4 min 10 s"
    )
