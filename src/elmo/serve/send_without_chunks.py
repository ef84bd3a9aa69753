"""Answers of unknown length to clients of HTTP/1.0."""

from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class SendWithoutChunks:
    """ASGI function `send` that ends an answer of unknown length with its connection.

    uvicorn would send chunks, which HTTP/1.0 does not have.
    """

    def __init__(self, send: Send, cycle: RequestResponseCycle) -> None:
        """Send an answer with uvicorn, which closes the connection after it."""
        self._send, self._cycle, self._has_length = send, cycle, True

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            self._has_length = b"content-length" in names
            if not self._has_length:
                self._cycle.chunked_encoding = False
        elif not self._has_length:
            # uvicorn compares the length of a body with the one that was announced.
            self._cycle.expected_content_length = len(message["body"])
        await self._send(message)
