"""Sending of answers so that their memory is limited."""

from starlette.types import Message, Send

from elmo.serve.held_memory import MemoryReservation

# The transport keeps at most about this many bytes that the client has not read (asyncio's limit).
# Longer bodies are sent in parts of this size, and count as held memory until all are sent.
PART_BYTES = 65_536


class LimitedSend:
    """ASGI function `send` that holds memory for the parts of an answer while they are sent.

    Without the parts, the transport would copy a whole body at once, and the answer would count as
    sent before the client has read anything.
    """

    def __init__(self, send: Send, held: MemoryReservation) -> None:
        """Send the answer of a request.

        Args:
            send: The function that sends to the client. It waits while the transport keeps more
                than `PART_BYTES`.
            held: The reservation of the request.
        """
        self._send, self._held = send, held
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        """Send a message, or raise `ApiError` if memory for an answer in one part is missing."""
        if message["type"] == "http.response.start":
            # It waits until the memory for the body is reserved.
            self._start = message
            return
        body: bytes = message.get("body", b"")
        has_more = message.get("more_body", False)
        n_held = len(body) if len(body) > PART_BYTES else 0
        if self._start is None or has_more:
            # What the answer is computed from is held already, and is needed for further parts.
            self._held.add_beyond_limit(n_held)
        else:
            # It is not needed any more.
            n_held = max(0, n_held - self._held.n_bytes)
            self._held.add(n_held)
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        if len(body) <= PART_BYTES:
            return await self._send(message)
        for first in range(0, len(body), PART_BYTES):
            part = body[first : first + PART_BYTES]
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        if not has_more:
            # Also waits until the transport has sent nearly all of the last part.
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self._held.release(n_held)
