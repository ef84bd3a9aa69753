"""Tests of a connection without a network; tests of its limits are in `test_http_server.py`."""

import asyncio
import gc
import weakref

import uvicorn
from uvicorn.server import ServerState

from elmo.serve.http_protocol import LimitedHttpProtocol


class FakeTransport(asyncio.Transport):
    def write(self, data):
        pass

    def close(self):
        pass

    def is_closing(self):
        return False


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def connect_and_leave():
    """Return a reference to a connection that has answered a request and was closed."""
    config = uvicorn.Config(answer, lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    protocol = LimitedHttpProtocol(config, state, {})
    protocol.connection_made(FakeTransport())
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while state.tasks:
        await asyncio.sleep(0)
    assert state.total_requests == 1
    assert protocol.cycle.response_complete
    protocol.connection_lost(None)
    return weakref.ref(protocol)


async def is_freed():
    reference = await connect_and_leave()
    # The event loop may still hold a handle for one iteration.
    for _ in range(3):
        await asyncio.sleep(0)
    return reference() is None


def test_closed_connection_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        assert asyncio.run(is_freed())
    finally:
        gc.enable()
