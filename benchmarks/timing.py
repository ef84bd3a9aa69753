"""How long ways take that are timed in turn, on cores that others may use too."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Part = Callable[[], object]
# What is done one after the other; a batch each, for example.
Way = Sequence[Part]
# Seconds until the threads of one way have come to rest: while they wait for more, they keep cores
# busy that the next one needs.
REST = 0.05


class Timing(NamedTuple):
    """Seconds that a way takes.

    Attributes:
        median: of all turns.
        least: the least that each part took in any turn, summed up: what it takes undisturbed,
            since others can but add to it.
    """

    median: float
    least: float


def times_of(ways: Mapping[str, Way], repeats: int) -> dict[str, Timing]:
    """Time ways in turn, so that a noisy machine is noisy to all of them."""
    for way in ways.values():
        for part in way:
            part()
    turns: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            time.sleep(REST)
            turns[name].append([_seconds(part) for part in way])
    return {
        name: Timing(statistics.median(map(sum, found)), sum(map(min, zip(*found, strict=True))))
        for name, found in turns.items()
    }


def _seconds(part: Part) -> float:
    started = time.perf_counter()
    part()
    return time.perf_counter() - started
