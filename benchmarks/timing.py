"""Timing of variants in turn, on machines that other programs may use at the same time."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Step = Callable[[], object]
# Steps that are run one after the other; for example one per batch.
Variant = Sequence[Step]
# Threads of one variant spin for some time after it ends; this pause keeps them from taking cores
# away from the next variant.
PAUSE_SECONDS = 0.05


class Timing(NamedTuple):
    """Seconds that a variant takes.

    Attributes:
        median: Median over all repeats.
        minimum: Sum over the steps of the minimum time of each step: an estimate of the time
            without other programs, which can only slow it down.
    """

    median: float
    minimum: float


def time_in_turn(variants: Mapping[str, Variant], repeats: int) -> dict[str, Timing]:
    """Time variants in turn, so that a slow moment of the machine affects all of them.

    Args:
        variants: Steps of each variant, by name. Each is run once before the timing starts.
        repeats: How often each variant is timed.
    """
    for variant in variants.values():
        for step in variant:
            step()
    seconds: dict[str, list[list[float]]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, variant in variants.items():
            time.sleep(PAUSE_SECONDS)
            seconds[name].append([_seconds(step) for step in variant])
    return {
        name: Timing(statistics.median(map(sum, rows)), sum(map(min, zip(*rows, strict=True))))
        for name, rows in seconds.items()
    }


def _seconds(step: Step) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started
