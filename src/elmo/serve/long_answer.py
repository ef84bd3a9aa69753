"""Answers that are computed and sent in parts, between which the event loop looks for requests."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TypeVar

import orjson
from starlette.types import Receive, Scope, Send

from elmo.serve.limited_send import PART_BYTES

Item = TypeVar("Item")
Part = bytes | memoryview

JSON = "application/json"
# Seconds after which a turn ends. A single part must not take much longer.
TURN_SECONDS = 0.002


class AnswerTurns:
    """Turns of answers: between two parts, of any answers, the event loop looks for requests.

    The answers to a batch are ready at once. Without turns, a new request, even if it is to be
    rejected, would wait until all of them are encoded.
    """

    def __init__(self) -> None:
        """Create turns for the answers of a server."""
        self._lock = asyncio.Lock()

    async def each(self, items: Iterable[Item]) -> AsyncIterator[Item]:
        """Yield items, which are computed meanwhile, and wait when a turn has ended."""
        end = 0.0
        for item in items:
            if time.monotonic() >= end:
                async with self._lock:
                    await asyncio.sleep(0)
                end = time.monotonic() + TURN_SECONDS
            yield item


class LongAnswer:
    """An ASGI answer that consists of parts, which are computed while it is sent."""

    def __init__(
        self,
        parts: Iterable[Part],
        turns: AnswerTurns,
        media_type: str = JSON,
        n_bytes: int | None = None,
    ) -> None:
        """Create the answer.

        Args:
            parts: Parts of the body, each of which is computed in a few milliseconds.
            turns: Turns of all answers.
            media_type: Type of the body.
            n_bytes: Length of the body, if it is known.
        """
        self._parts, self._turns = parts, turns
        self._media_type, self._n_bytes = media_type, n_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. Small parts are joined, since each takes a system call."""
        joined: list[Part] = []
        size, is_started = 0, False
        async for part in self._turns.each(self._parts):
            joined.append(part)
            size += len(part)
            if size >= PART_BYTES:
                if not is_started:
                    await self._start(send, self._n_bytes)
                    is_started = True
                body = b"".join(joined)
                joined, size = [], 0
                await send({"type": "http.response.body", "body": body, "more_body": True})
        if not is_started:
            await self._start(send, size)
        await send({"type": "http.response.body", "body": b"".join(joined)})

    async def _start(self, send: Send, n_bytes: int | None) -> None:
        headers = [(b"content-type", self._media_type.encode())]
        if n_bytes is not None:
            headers.append((b"content-length", str(n_bytes).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})


def json_parts(
    head: Mapping[str, object], list_name: str, items: Iterable[Iterable[bytes]]
) -> Iterator[bytes]:
    """Yield the parts of a JSON object.

    Args:
        head: Its first fields, at least one.
        list_name: Name of its last field, a list.
        items: Parts of each item of the list.
    """
    yield orjson.dumps(head)[:-1] + b',"' + list_name.encode() + b'":['
    for number, parts in enumerate(items):
        if number:
            yield b","
        yield from parts
    yield b"]}"


def record_parts(
    record: Mapping[str, object], name: str, value: Iterable[bytes]
) -> Iterator[bytes]:
    """Yield the parts of a JSON object with some fields and a last one that has parts."""
    yield (orjson.dumps(record)[:-1] + b',"' if record else b'{"') + name.encode() + b'":'
    yield from value
    yield b"}"
