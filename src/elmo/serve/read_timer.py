"""Time limit for clients that do not read."""

import sys
from asyncio import AbstractEventLoop, TimerHandle, Transport

if sys.platform == "linux":
    import fcntl
    import termios

# Seconds in which a client must read something.
READ_SECONDS = 30.0


class ReadTimer:
    """Closes a connection whose client has stopped reading, however slow it was before."""

    def __init__(self, loop: AbstractEventLoop, transport: Transport) -> None:
        """Create a timer that is not started yet."""
        self._loop, self._transport = loop, transport
        self._handle: TimerHandle | None = None
        self._n_bytes = 0

    def start(self) -> None:
        """Start, if the timer is not running already."""
        if self._handle is None:
            self._n_bytes = self._count_unread_bytes()
            self._handle = self._loop.call_later(READ_SECONDS, self._check)

    def stop(self) -> None:
        """Stop."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self) -> None:
        """Close the connection if the client has read nothing since the last check."""
        self._handle = None
        if self._count_unread_bytes() < self._n_bytes:
            self.start()
        else:
            self._transport.abort()

    def _count_unread_bytes(self) -> int:
        """Return how many of the bytes that were sent the client has not received."""
        n_bytes = self._transport.get_write_buffer_size()
        if sys.platform == "linux":
            # The system takes more only when a third of its buffer, which has up to 4 MB, is free.
            # With a slow client, this takes longer than the limit.
            file = self._transport.get_extra_info("socket").fileno()
            queued = fcntl.ioctl(file, termios.TIOCOUTQ, bytes(4))
            n_bytes += int.from_bytes(queued, sys.byteorder)
        return n_bytes
