"""Dry runs: measures the duration of a few training steps in bounded time and writes no files."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from elmo.progress import duration
from elmo.train.prefetch import prefetched
from elmo.train.trainable import Batch, EvaluationT, StepResult, Trainable

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Steps before the clock starts, and timed steps.
WARM_UP, TIMED = 3, 20
# Time limit in seconds. One call of `step` can exceed it.
MAX_SECONDS = 10.0
# A first call that takes longer than this fraction of the time limit is not repeated as a warm-up.
MAX_WARM_UP = 0.2


def dry_run(
    trainable: Trainable[Batch, EvaluationT, object],
    step: Callable[[Batch], StepResult],
    fabric: "Fabric",
) -> str:
    """Measure the speed of training steps, and return a note with the duration of the run."""
    # Only a CPU can be too slow. With several processes, all must run the same steps.
    may_shorten = fabric.world_size == 1 and fabric.device.type == "cpu"
    shorten = trainable.shorten if may_shorten else None
    with closing(prefetched(trainable.batches(0))) as batches:
        seconds, is_measured = step_seconds(step, batches, shorten)
    speed = f"{trainable.tokens_per_step / seconds:,.0f} tokens/s"
    speed += "" if is_measured else " (estimated from parts of a step)"
    spent = duration(seconds * trainable.n_steps)
    return f"dry run, nothing written; {speed}: the run would take about {spent}"


def step_seconds(
    step: Callable[[Batch], StepResult],
    batches: Iterator[Batch],
    shorten: Callable[[Batch, int], tuple[Batch, float] | None] | None,
) -> tuple[float, bool]:
    """Measure the duration of a step, and return whether whole steps were measured.

    If a whole step would take too long, parts of it are measured: the first time step, then twice
    as many time steps as before while they fit into the time limit. `shorten` returns the first
    time steps of a batch and their fraction of all time steps; None if a batch cannot be shortened.
    """
    end = time.monotonic() + MAX_SECONDS
    parts: list[tuple[float, float]] = []  # fraction of a step, seconds
    n_steps = 1
    while shorten is not None and (part := shorten(next(batches), n_steps)) is not None:
        seconds = _seconds(step, part[0])
        if not parts and seconds < MAX_WARM_UP * MAX_SECONDS:
            seconds = _seconds(step, part[0])
        parts.append((part[1], seconds))
        left = end - time.monotonic()
        if part[1] >= 1 or 3 * estimate(parts) < left:
            break
        # Twice as many time steps take less than twice the time, because of the fixed costs.
        if 1.5 * seconds > left:
            return estimate(parts), False
        n_steps *= 2
    return _whole_steps(step, batches, end), True


def _seconds(step: Callable[[Batch], StepResult], batch: Batch) -> float:
    start = time.monotonic()
    float(step(batch).norm)  # synchronize with the device
    return time.monotonic() - start


def estimate(parts: list[tuple[float, float]]) -> float:
    """Estimate the seconds of a whole step from its parts, (fraction, seconds).

    A part has costs that do not depend on its length, such as the update of the weights. With at
    least two parts, they are estimated too.
    """
    fraction, seconds = parts[-1]
    if len(parts) == 1:
        return seconds / fraction
    shorter, shorter_seconds = parts[-2]
    slope = max(0.0, seconds - shorter_seconds) / (fraction - shorter)
    return seconds + slope * (1 - fraction)


def _whole_steps(
    step: Callable[[Batch], StepResult], batches: Iterator[Batch], end: float
) -> float:
    """Return the mean seconds per step after a warm-up of at most a third of the steps."""
    begin = start = time.monotonic()
    n_done = n_timed = 0
    result = None
    for batch in batches:
        result = step(batch)
        n_done += 1
        n_timed += 1
        now = time.monotonic()
        if n_done == WARM_UP or (n_done == 1 and 2 * (now - begin) > end - now):
            float(result.norm)
            start, n_timed = time.monotonic(), 0
        elif n_timed and (n_done >= WARM_UP + TIMED or now > end):
            break
    assert result is not None
    float(result.norm)
    return (time.monotonic() - start) / max(1, n_timed)
