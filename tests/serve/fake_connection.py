"""Connections of the HTTP server without a network, and applications for them."""

import asyncio
import re

import uvicorn
from starlette.requests import ClientDisconnect, Request
from uvicorn.server import ServerState

from elmo.serve.http_protocol import LimitedHttpProtocol

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"
OVER = {"type": "http.disconnect"}


class FakeTransport(asyncio.Transport):
    """A transport that records what is written."""

    def __init__(self, host="10.0.0.1"):
        super().__init__({"peername": (host, 1)})
        self.output, self.is_reading_paused, self.is_closed = b"", False, False
        self.has_eof = self.is_aborted = False

    def write(self, data):
        assert not self.has_eof
        self.output += data

    def write_eof(self):
        self.has_eof = True

    def close(self):
        self.is_closed = True

    def abort(self):
        self.is_closed = self.is_aborted = True

    def is_closing(self):
        return self.is_closed

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        self.is_reading_paused = True

    def resume_reading(self):
        self.is_reading_paused = False

    @property
    def statuses(self):
        return [int(number) for number in re.findall(rb"HTTP/1.1 (\d+) ", self.output)]


async def send_answer(send, body=b""):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def answer(scope, receive, send):
    await send_answer(send)


class Gate:
    """An application whose requests wait until `event` is set, or until the client leaves."""

    def __init__(self):
        self.event, self.started, self.cancelled = asyncio.Event(), [], []

    async def __call__(self, scope, receive, send):
        self.started.append(scope["path"])
        await Request(scope, receive).body()
        gone = asyncio.ensure_future(receive())
        waiting = asyncio.ensure_future(self.event.wait())
        await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            assert gone.result() == OVER
            self.cancelled.append(scope["path"])
            raise ClientDisconnect
        gone.cancel()
        await send_answer(send, b"waited")


class Connection:
    """A connection of an application, without a network."""

    def __init__(self, app=answer, host="10.0.0.1", limit=None, turns=None):
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
        config.load()
        self.state, self.transport = ServerState(), FakeTransport(host)
        self.protocol = LimitedHttpProtocol(
            config, self.state, {}, connection_limit=limit, turns=turns
        )
        self.protocol.connection_made(self.transport)

    def send(self, data):
        self.protocol.data_received(data)

    async def finish(self):
        """Wait until all requests that were accepted are answered."""
        while self.state.tasks:
            await asyncio.sleep(0)


async def iterate():
    # The event loop may still hold a handle for one iteration.
    for _ in range(5):
        await asyncio.sleep(0)
