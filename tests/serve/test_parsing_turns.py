"""Tests of the turns of hosts."""

import asyncio
import time

from elmo.serve.parsing_turns import TURN_SECONDS, ParsingTurns


async def count_calls(n_iterations):
    """Return how often connections of two hosts parsed, one host with ten of them."""
    turns, calls = ParsingTurns(), {"many": [], "one": []}

    def connection(host, number):
        def parse(end):
            calls[host].append(number)
            while time.monotonic() < end:
                pass
            turns.add(host, parse)

        return parse

    for number in range(10):
        turns.add("many", connection("many", number))
    turns.add("one", connection("one", 0))
    for _ in range(n_iterations):
        await asyncio.sleep(0)
    return calls


def test_each_host_has_one_turn_per_iteration():
    calls = asyncio.run(count_calls(20))
    assert len(calls["one"]) == len(calls["many"]) >= 19
    assert calls["many"][:12] == [*range(10), 0, 1]


async def run_short_calls(n):
    turns, order = ParsingTurns(), []
    for number in range(n):
        turns.add("host", lambda end, number=number: order.append(number))
    assert turns.must_wait("host")
    assert not turns.must_wait("other")
    started = time.monotonic()
    while turns.must_wait("host"):
        await asyncio.sleep(0)
    return order, time.monotonic() - started


def test_short_calls_share_a_turn():
    order, seconds = asyncio.run(run_short_calls(100))
    assert order == list(range(100))
    assert seconds < 50 * TURN_SECONDS
