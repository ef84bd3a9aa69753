"""The protocol of a connection, with limits on headers, connections and slow clients.

uvicorn limits none of these: it accepts headers of any size, keeps connections with unfinished
headers, and waits without end for clients that do not read. It also parses requests while an
earlier one is being answered, and then no longer knows which of them an error or a lost connection
is about.
"""

import select
import time
from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
from collections.abc import Sequence
from functools import partial
from typing import cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from elmo.serve.api_error import ApiError
from elmo.serve.client_network import client_network, plain_address
from elmo.serve.connection_app import run_app
from elmo.serve.connection_errors import error_bytes, unavailable
from elmo.serve.fair_limit import FairLimit
from elmo.serve.parsing_turns import TURN_SECONDS, ParsingTurns
from elmo.serve.read_timer import ReadTimer
from elmo.serve.reading_flow import ReadingFlow

MAX_HEADER_BYTES = 65_536
# Each look at a header compares the names of all: with 16,000 headers, a request took 0.1 s.
MAX_HEADERS = 128
LONG_HEADERS = f"The headers are longer than {MAX_HEADER_BYTES:,} bytes."
MANY_HEADERS = f"There are more than {MAX_HEADERS} headers."
OTHER_CODING = "Transfer-Encoding must be chunked."
# Bytes behind a request in progress after which reading pauses.
MAX_WAITING_BYTES = 65_536
# Bytes that are parsed at a time, and those of a body with a known length, which is fast.
PART_BYTES, BODY_PART_BYTES = 8192, 65_536
# Seconds between checks whether the client has left, while reading is paused.
CHECK_SECONDS = 1.0
# Seconds to send the headers of a request, or the rest of a body that the answer did not wait for.
REQUEST_SECONDS = 10.0
# Seconds in which the rest of a rejected request is read and dropped. If the connection were closed
# at once, a client that is still sending would not see the answer.
LINGER_SECONDS = 2.0
# Bytes of a header besides its name and value.
HEADER_SEPARATORS = 4
LINE_BREAKS = b"\r\n"
# Headers, and bodies in chunks, end with an empty line.
EMPTY_LINE = LINE_BREAKS + LINE_BREAKS


class LimitedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection that closes when the client exceeds a limit.

    It parses one request at a time: what follows a request waits, unparsed, for its answer.
    """

    flow: ReadingFlow
    _request_timer: TimerHandle | None = None
    _read_timer: ReadTimer
    _check_timer: TimerHandle | None = None
    _waits_for_turn = False
    # What limits count as one host.
    _host = ""
    _in_headers = True
    _in_body = False
    # Whether further requests are ignored, after an error.
    _is_ending = False
    # Whether everything is sent, and the connection stays open until the client has seen it.
    _is_lingering = False
    _is_counted = False
    _n_header_bytes = 0
    # Bytes of the body that are not parsed yet. For bodies in chunks, 0.
    _n_body_bytes = 0
    # Bytes of a body in chunks since the last content: lengths, trailers.
    _n_chunk_bytes = 0
    # Headers of a body that the parser skips, because the client offers an upgrade.
    _body_headers: Sequence[bytes] = ()
    # The parser of the connection, while another one reads such a body.
    _request_parser: httptools.HttpRequestParser | None = None
    # Last bytes that were parsed; an empty line can begin in them.
    _last_bytes = b""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: AbstractEventLoop | None = None,
        *,
        connection_limit: FairLimit | None = None,
        turns: ParsingTurns | None = None,
    ) -> None:
        """Create the protocol of a connection that is not made yet.

        Args:
            config: The settings of uvicorn.
            server_state: What uvicorn knows about all connections.
            app_state: State of the application.
            _loop: The event loop, a name that uvicorn prescribes.
            connection_limit: Limit on all connections of the server. Default: none.
            turns: Turns of all connections of the server. Default: turns of this one.
        """
        super().__init__(config, server_state, app_state, _loop)
        self.app = partial(run_app, self)
        self._connection_limit, self._turns = connection_limit, turns or ParsingTurns()
        self._waiting_data = bytearray()

    def connection_made(self, transport: BaseTransport) -> None:
        """Accept a connection if there are not too many."""
        super().connection_made(cast(Transport, transport))
        self.flow = ReadingFlow(self.transport)
        self._read_timer = ReadTimer(self.loop, self.transport)
        if self.client:
            self._host = client_network(plain_address(self.client[0]))
        limit, host = self._connection_limit, self._host
        if limit is not None:
            if not limit.has_room(host):
                self.send_error(unavailable("There are too many connections."))
                return self._close()
            limit.add(host)
            self._is_counted = True
        self._start_request_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._is_counted and self._connection_limit is not None:
            self._connection_limit.release(self._host)
        self._stop_request_timer()
        self._stop_check_timer()
        self._read_timer.stop()
        self._waiting_data.clear()
        super().connection_lost(exc)
        # uvicorn leaves the timer running after an error. It refers to the connection, as the cycle
        # and the application do. Without them, all are freed at once.
        self._unset_keepalive_if_required()
        self.cycle = None  # type: ignore[assignment]
        self.app = self._request_parser = None

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request, or keep it until the one before it is answered."""
        if self._is_ending or self.transport.is_closing():
            return
        self._waiting_data += data
        self._parse_waiting_data()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers, which follow a body in chunks, are dropped."""
        if self._in_body:
            return
        if len(self.headers) == MAX_HEADERS:
            self._reject_headers(MANY_HEADERS)
            raise ValueError(MANY_HEADERS)  # ends the parser
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request if its headers are not too long."""
        n_bytes = len(self.url) + sum(
            len(name) + len(value) + HEADER_SEPARATORS for name, value in self.headers
        )
        if n_bytes > MAX_HEADER_BYTES:
            self._reject_headers(LONG_HEADERS)
            raise ValueError(LONG_HEADERS)  # ends the parser
        # The parser keeps spaces at the end of a header.
        values = [value.strip() for name, value in self.headers if name == b"transfer-encoding"]
        if values and [value.lower() for value in values] != [b"chunked"]:
            # The parser would read "gzip, chunked" as chunked.
            self._close_with(ApiError(501, OTHER_CODING))
            raise ValueError(OTHER_CODING)  # ends the parser
        self._in_headers, self._in_body, self._n_header_bytes = False, True, 0
        headers = dict(self.headers)
        # The parser has checked that the length is one number.
        self._n_body_bytes = int(headers.get(b"content-length", 0))
        if self.parser.should_upgrade():
            names = {b"content-length", b"transfer-encoding"} & headers.keys()
            self._body_headers = [b"%s: %s\r\n" % (name, headers[name]) for name in names]
        self._stop_request_timer()
        super().on_headers_complete()
        self.cycle.transport = cast(Transport, LingeringTransport(self))

    def on_body(self, body: bytes) -> None:
        """Add a part of the body to a request."""
        self._n_body_bytes = max(0, self._n_body_bytes - len(body))
        self._n_chunk_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete a request; what follows are headers of the next one."""
        if self._body_headers:
            return  # the parser skips the body if an upgrade is asked for
        if self._request_parser is not None:
            self.parser, self._request_parser = self._request_parser, None
        self._in_headers, self._in_body = True, False
        self._n_body_bytes, self._n_chunk_bytes, self._last_bytes = 0, 0, b""
        self._stop_request_timer()
        super().on_message_complete()
        if not self._is_answering:
            # The body ends after the answer, whose timer ended when more of the body came.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Complete an answer. The time for what the client has begun to send is limited."""
        super().on_response_complete()
        self._parse_waiting_data()
        if self._is_request_unfinished and not self._is_answering and not self._is_ending:
            self._start_request_timer()

    def pause_writing(self) -> None:
        """Limit the time in which the client does not read, while much of an answer is ready."""
        super().pause_writing()
        self._read_timer.start()

    def resume_writing(self) -> None:
        """Continue to send."""
        if not self.transport.is_closing():
            self._read_timer.stop()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP."""
        self._close_with(ApiError(400, "This is not a valid HTTP/1.1 request."))

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was not used for a while."""
        self._close()

    def close_gently(self) -> None:
        """Close the connection; if a request is not complete, first drop the rest of it."""
        is_unfinished = self._is_ending or self._waiting_data or self._is_request_unfinished
        if self.transport.is_closing() or self._is_lingering or not is_unfinished:
            self._close()
            return
        self._is_ending = self._is_lingering = True
        self._stop_request_timer()
        self._request_timer = self.loop.call_later(LINGER_SECONDS, self._close)
        self.flow.resume_reading()
        self._drop_waiting_data()
        try:
            self.transport.write_eof()
        except OSError:  # the client has reset the connection
            self.transport.abort()

    def send_error(self, error: ApiError) -> None:
        """Send an error that no handler knows of, whose answer says that the connection ends."""
        self.transport.write(error_bytes(error))

    @property
    def _is_answering(self) -> bool:
        """Whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_request_unfinished(self) -> bool:
        """Whether a part of a request is still to be received."""
        return self._in_body or self._n_header_bytes > 0

    def _parse_waiting_data(self) -> None:
        """Parse for a turn, or wait for one if other connections of the host wait, too."""
        if self._turns.must_wait(self._host):
            self._wait_for_turn()
        else:
            self._parse_until(time.monotonic() + TURN_SECONDS)

    def _wait_for_turn(self) -> None:
        if self._waiting_data and not self._waits_for_turn and not self._must_wait:
            self._waits_for_turn = True
            self._turns.add(self._host, self._take_turn)
        self._limit_waiting_data()

    def _take_turn(self, end: float) -> None:
        self._waits_for_turn = False
        self._parse_until(end)

    def _parse_until(self, end: float) -> None:
        """Parse up to the end of a request that is being processed, or of the turn."""
        data = self._waiting_data
        while data and not self._must_wait:
            if self._in_headers and not self._n_header_bytes and data[0] in LINE_BREAKS:
                # Empty lines between requests are allowed.
                del data[: len(data) - len(data.lstrip(LINE_BREAKS))]
                continue
            part = bytes(data[: self._next_length()])
            del data[: len(part)]
            self._parse(part)
            if time.monotonic() >= end:
                break
        self._wait_for_turn()

    def _limit_waiting_data(self) -> None:
        """Pause reading while much waits. It continues for little, to notice a client leaving."""
        n_bytes = len(self._waiting_data)
        if n_bytes >= MAX_WAITING_BYTES and self._check_timer is None:
            self.flow.pause_until_parsed()
            self._check_timer = self.loop.call_later(CHECK_SECONDS, self._check_connection)
        elif n_bytes < MAX_WAITING_BYTES and self._check_timer is not None:
            self._stop_check_timer()
            self.flow.resume_after_parsing()

    @property
    def _must_wait(self) -> bool:
        """Whether nothing is to be parsed now."""
        is_closed = self._is_ending or self.transport.is_closing()
        return is_closed or (self._in_headers and self._is_answering)

    def _next_length(self) -> int:
        """Return the number of bytes to parse at a time, which end where the request may end."""
        if self._in_body and self._n_body_bytes:
            return min(self._n_body_bytes, BODY_PART_BYTES)
        data = self._last_bytes + self._waiting_data[:PART_BYTES]
        end = data.find(EMPTY_LINE)
        return (end + len(EMPTY_LINE) if end >= 0 else len(data)) - len(self._last_bytes)

    def _parse(self, data: bytes) -> None:
        """Parse a part of a request."""
        n_kept = len(EMPTY_LINE) - 1
        self._last_bytes = (self._last_bytes + data[-n_kept:])[-n_kept:]
        if self._in_headers:
            self._n_header_bytes += len(data)
            if self._request_timer is None:
                self._start_request_timer()
        elif not self._n_body_bytes:
            self._n_chunk_bytes += len(data)
        super().data_received(data)
        if self._body_headers:
            self._read_body_without_upgrade()
        # The parser keeps an unfinished header, or trailer, in memory.
        if max(self._n_header_bytes, self._n_chunk_bytes) > MAX_HEADER_BYTES:
            if self._in_headers or self._is_answering:
                self._reject_headers(LONG_HEADERS)
            else:
                self._close()

    def _read_body_without_upgrade(self) -> None:
        """Read the body with a parser of its own, since no upgrade is offered."""
        headers, self._body_headers = b"".join(self._body_headers), ()
        self._request_parser = self.parser
        self.parser = httptools.HttpRequestParser(BodyCallbacks(self))
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + headers + b"\r\n")

    def _unsupported_upgrade_warning(self) -> None:
        """Do not log that a client offers an upgrade."""

    def _drop_waiting_data(self) -> None:
        self._waiting_data.clear()
        if self._check_timer is not None:
            self._stop_check_timer()
            self.flow.resume_after_parsing()

    def _check_connection(self) -> None:
        """Close the connection if the client has left, which nothing notices without reading."""
        self._check_timer = self.loop.call_later(CHECK_SECONDS, self._check_connection)
        if hasattr(select, "poll"):
            poll = select.poll()
            # Linux reports that the client has closed its end, other systems only errors.
            poll.register(self.transport.get_extra_info("socket"), getattr(select, "POLLRDHUP", 0))
            if poll.poll(0):
                self.transport.abort()

    def _start_request_timer(self) -> None:
        self._stop_request_timer()
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._end_request)

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_check_timer(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
            self._check_timer = None

    def _end_request(self) -> None:
        if self._in_headers and self._n_header_bytes:
            text = f"The headers took more than {REQUEST_SECONDS:.0f} seconds."
            self._close_with(ApiError(408, text))
        else:
            self._close()

    def _reject_headers(self, reason: str) -> None:
        self._close_with(ApiError(431, reason))

    def _close(self) -> None:
        """Close the connection when the client has read what was sent."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._read_timer.start()

    def _close_with(self, error: ApiError) -> None:
        """Send an error that no handler knows of, and close the connection.

        If a request is being answered already, the connection is closed after this answer.
        """
        if self._is_ending or self.transport.is_closing():
            return
        self._is_ending = True
        if self._is_answering:
            if self.cycle.response_started or not self._in_body:
                self.cycle.keep_alive = False
                self._drop_waiting_data()
                return
            # The handler, which waits for the body, is to end.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.send_error(error)
        self.close_gently()


class BodyCallbacks:
    """What a parser calls that reads only the body of a request."""

    def __init__(self, protocol: LimitedHttpProtocol) -> None:
        """Pass the body to the protocol of a connection."""
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete


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
