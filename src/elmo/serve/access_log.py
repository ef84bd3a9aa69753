"""One line per request, as JSON without text of the request; also the last resort for errors."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime

import orjson
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.access_control import client_host
from elmo.serve.api_error import ApiError, error_response
from elmo.serve.request_facts import RequestFacts
from elmo.serve.server_metrics import CANCELLED, ServerMetrics

logger = logging.getLogger(__name__)


class AccessLog:
    """Outermost middleware: records each request, and answers unexpected errors with 500."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: ServerMetrics,
        trusted_proxies: Collection[str],
        write: Callable[[str], object] | None,
    ) -> None:
        """Wrap an application.

        Args:
            app: The application.
            metrics: Metrics in which requests are counted.
            trusted_proxies: Addresses of proxies whose X-Forwarded-For is used.
            write: Function that receives each line, with its line break; None for no log.
        """
        self._app, self._metrics, self._write = app, metrics, write
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request and record it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = time.monotonic()
        facts = RequestFacts(client_host(scope, self._trusted_proxies))
        facts.attach(scope)
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = facts.id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = CANCELLED
        except asyncio.CancelledError:
            # The server stops at once. The connection answers if nothing was sent yet.
            status = CANCELLED if status is not None else 503
            raise
        except Exception:
            logger.exception("Request %s failed.", facts.id)
            if status is not None:
                raise  # the server closes the connection within the answer
            error = ApiError(500, f"The server failed. The log has details for {facts.id}.")
            await error_response(Request(scope), error)(scope, receive, send_with_id)
        finally:
            self._record(scope, facts, status or CANCELLED, time.monotonic() - started)

    def _record(self, scope: Scope, facts: RequestFacts, status: int, seconds: float) -> None:
        self._metrics.add_request(facts, status, seconds)
        if self._write is None:
            return
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "id": facts.id,
            "client": facts.host,
            "method": scope["method"],
            "route": facts.route,
            "status": status,
            "seconds": round(seconds, 6),
        }
        optional = {
            "queue_seconds": None if facts.queue_seconds is None else round(facts.queue_seconds, 6),
            "model": facts.subject,
            "sentences": facts.n_sentences,
            "words": facts.n_words,
        }
        record |= {name: value for name, value in optional.items() if value is not None}
        try:
            self._write(orjson.dumps(record).decode() + "\n")
        except OSError:  # the reader of standard output has gone
            self._write = None
