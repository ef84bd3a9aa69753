"""Turns of hosts whose connections have much to parse."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

# Seconds after which a host gives way to others: many empty lines take seconds per MB.
TURN_SECONDS = 0.001


class ParsingTurns:
    """Lets each host parse for one turn per iteration of the event loop.

    With turns of connections instead, 100 connections of one host with bodies that take long to
    parse would make each iteration, and each step of the requests of others, take 100 turns.
    """

    def __init__(self) -> None:
        """Begin with no host that waits."""
        self._waiting: dict[str, deque[Callable[[float], None]]] = {}
        self._is_scheduled = False

    def must_wait(self, host: str) -> bool:
        """Return whether connections of a host wait, so that its others must wait, too."""
        return host in self._waiting

    def add(self, host: str, parse: Callable[[float], None]) -> None:
        """Call a function once, in a turn of a host, with the time at which the turn ends."""
        self._waiting.setdefault(host, deque()).append(parse)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Run a turn of each host, for as many of its connections as there is time."""
        self._is_scheduled = False
        for host in list(self._waiting):
            connections = self._waiting[host]
            end = time.monotonic() + TURN_SECONDS
            while connections and time.monotonic() < end:
                connections.popleft()(end)
            if not connections:
                del self._waiting[host]
        if self._waiting:
            self._schedule()
