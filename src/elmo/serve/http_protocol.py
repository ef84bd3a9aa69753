"""The protocol of a connection, with limits on headers, connections and slow clients.

uvicorn limits none of these: it accepts headers of any size, keeps connections with unfinished
headers, and waits without end for clients that do not read.
"""

from asyncio import BaseTransport, TimerHandle, Transport
from typing import cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 65_536
MAX_CONNECTIONS = 1024
# Seconds to send the headers of a request, or the rest of a body that the answer did not wait for.
REQUEST_SECONDS = 10.0
# Seconds in which the rest of a rejected request is read and dropped. If the connection were closed
# at once, a client that is still sending would not see the answer.
LINGER_SECONDS = 2.0
# Bytes of a header besides its name and value.
HEADER_SEPARATORS = 4
# Seconds without reading an answer, of which at least 64 KiB are ready.
READ_SECONDS = 30.0
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class LimitedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection that closes when the client exceeds a limit."""

    _request_timer: TimerHandle | None = None
    _read_timer: TimerHandle | None = None
    _in_headers = True
    _in_body = False
    _is_lingering = False
    _n_header_bytes = 0

    def connection_made(self, transport: BaseTransport) -> None:
        """Accept a connection if there are not too many."""
        super().connection_made(cast(Transport, transport))
        if len(self.connections) > MAX_CONNECTIONS:
            self._close_with(503, "There are too many connections.")
        else:
            self._start_request_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_request_timer()
        self.resume_writing()
        super().connection_lost(exc)
        # It refers to the connection. Without the cycle, both are freed at once.
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request."""
        if self._is_lingering or self.transport.is_closing():
            return
        if self._in_headers:
            self._n_header_bytes += len(data)
            if self._request_timer is None and not self._is_answering:
                self._start_request_timer()
        super().data_received(data)
        # The parser keeps an unfinished header in memory.
        if self._in_headers and self._n_header_bytes > MAX_HEADER_BYTES:
            self._reject_headers()

    def on_headers_complete(self) -> None:
        """Begin a request if its headers are not too long."""
        n_bytes = len(self.url) + sum(
            len(name) + len(value) + HEADER_SEPARATORS for name, value in self.headers
        )
        if n_bytes > MAX_HEADER_BYTES:
            self._reject_headers()
            raise ValueError("The headers are too long.")  # ends the parser
        self._in_headers, self._in_body, self._n_header_bytes = False, True, 0
        self._stop_request_timer()
        super().on_headers_complete()
        self.cycle.transport = cast(Transport, LingeringTransport(self))

    def on_message_complete(self) -> None:
        """Complete a request; what follows are headers of the next one."""
        self._in_headers, self._in_body = True, False
        self._stop_request_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Complete an answer. The time for what the client has begun to send is limited."""
        super().on_response_complete()
        is_unread = self._in_body or self._n_header_bytes
        if is_unread and not self._is_answering and not self._is_lingering:
            self._start_request_timer()

    def pause_writing(self) -> None:
        """Limit the time in which the client does not read."""
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue to send."""
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP."""
        self._close_with(400, "This is not a valid HTTP/1.1 request.")

    @property
    def _is_answering(self) -> bool:
        """Whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    def close_gently(self) -> None:
        """Close the connection; if a request is not complete, first drop the rest of it."""
        is_unread = self._in_body or self._n_header_bytes
        if self.transport.is_closing() or self._is_lingering or not is_unread:
            self.transport.close()
            return
        self._is_lingering = True
        self.transport.write_eof()
        self.flow.resume_reading()
        self._stop_request_timer()
        self._request_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _start_request_timer(self) -> None:
        self._stop_request_timer()
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._end_request)

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _end_request(self) -> None:
        if self._in_headers and self._n_header_bytes:
            self._close_with(408, f"The headers took more than {REQUEST_SECONDS:.0f} seconds.")
        else:
            self.transport.close()

    def _reject_headers(self) -> None:
        self._close_with(431, f"The headers are longer than {MAX_HEADER_BYTES:,} bytes.")

    def _close_with(self, status: int, message: str) -> None:
        """Send an error that no handler knows of, and close the connection.

        If an earlier request is being answered, the connection is closed after this answer.
        """
        if self.transport.is_closing() or self._is_lingering:
            return
        if self._is_answering:
            if not self._in_body or self.cycle.response_started:
                self._is_lingering, self.cycle.keep_alive = True, False
                return
            # The handler, which waits for the body, is to end.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        body = orjson.dumps({"error": {"message": message, "type": "invalid_request_error"}})
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.close_gently()


class LingeringTransport:
    """What an answer uses of its transport. It closes gently."""

    def __init__(self, protocol: LimitedHttpProtocol) -> None:
        """Use the transport of a connection."""
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        """Send a part of the answer."""
        self._protocol.transport.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        """Close the connection, at once if the request is complete."""
        self._protocol.close_gently()
