"""An HTTP server on this machine that runs while a test uses it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class LocalServer:
    """A server that runs inside a `with` block.

    Attributes:
        endpoint: Its address.
    """

    def bind(self, handler: type[BaseHTTPRequestHandler]) -> None:
        """Bind a free port. Requests are served only inside the `with` block."""
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Start serving."""
        self._thread.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until the last response has been sent and close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    # Threads are joined at the end, so that none outlives its test.
    daemon_threads = False
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connection errors, because clients may close the connection early."""
