"""The application as a connection runs it, which can end before the application has answered."""

import asyncio
from asyncio import Transport
from typing import Any, Protocol, cast

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from elmo.serve.api_error import ApiError
from elmo.serve.connection_errors import unavailable
from elmo.serve.send_without_chunks import SendWithoutChunks


class Connection(Protocol):
    """The parts of a `LimitedHttpProtocol` that are needed to run the application."""

    config: Config
    transport: Transport

    def send_error(self, error: ApiError) -> None:
        """Send an error instead of the answer."""

    def close_gently(self) -> None:
        """Close the connection when the client has read the answer."""


async def run_app(connection: Connection, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application until it has answered, the client leaves, or the server stops."""
    # `receive` is a method of the cycle. The connection has none if the client has left already.
    cycle: RequestResponseCycle = cast(Any, receive).__self__

    if scope["http_version"] == "1.0":
        send = SendWithoutChunks(send, cycle)

    async def send_unless_gone(message: Message) -> None:
        await send(message)
        # uvicorn drops what it can no longer send. The rest of the answer is not computed.
        is_lost = connection.transport.is_closing() and not cycle.response_complete
        if cycle.disconnected or is_lost:
            cycle.disconnected = True
            raise ClientDisconnect

    try:
        await connection.config.loaded_app(scope, receive, send_unless_gone)
    except ClientDisconnect:
        pass
    except asyncio.CancelledError:
        # The server stops at once. uvicorn would log it as an error of the application.
        if cycle.disconnected or cycle.response_complete:
            return
        cycle.disconnected = True
        if cycle.response_started:
            connection.transport.abort()
        else:
            connection.send_error(unavailable("The server is shutting down."))
            connection.close_gently()
    except Exception:
        if cycle.response_started:
            # The end of the connection could be taken for that of the answer.
            connection.transport.abort()
        raise
