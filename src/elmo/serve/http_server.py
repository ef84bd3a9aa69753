"""The HTTP server: starts, and stops without losing accepted requests."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from elmo.config.serve import ServeConfig
from elmo.errors import ConfigError
from elmo.serve.connection_limit import MAX_CONNECTIONS, connection_limit
from elmo.serve.http_protocol import LimitedHttpProtocol
from elmo.serve.memory_trimmer import MemoryTrimmer
from elmo.serve.parsing_turns import ParsingTurns
from elmo.serve.server_state import ServerState

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 30
# Seconds to close connections after the time for accepted requests.
CLOSING_SECONDS = 1
# New objects after which the garbage collector runs. Requests leave nothing for it, but with the
# default of 700, it scanned all requests in progress every two seconds, for up to 80 ms.
GARBAGE_THRESHOLD = 10_000


class HttpServer(uvicorn.Server):
    """Server that answers accepted requests before it stops.

    After the first signal, new requests get 503; after the second one, the server stops at once.
    """

    def __init__(self, state: ServerState, app: ASGIApp) -> None:
        """Configure the server.

        Args:
            state: What all requests share.
            app: The application.
        """
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=cast(
                    type[LimitedHttpProtocol],
                    partial(
                        LimitedHttpProtocol,
                        connection_limit=connection_limit(),
                        turns=ParsingTurns(),
                    ),
                ),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="error",
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=CLOSING_SECONDS,
            )
        )
        self._state, self._trimmer = state, MemoryTrimmer()
        self._stop_until = 0.0
        self.load_error: BaseException | None = None
        self.n_unfinished = 0

    def run_until_stopped(self, listener: socket.socket) -> None:
        """Serve the connections of a socket until a signal, or until a first load fails."""
        thresholds = gc.get_threshold()
        gc.set_threshold(GARBAGE_THRESHOLD, *thresholds[1:])
        self._state.worker.start()
        self._state.text_worker.start()
        for future in self._state.table.start():
            future.add_done_callback(lambda loaded: self._finish_load(loaded.exception()))
        try:
            self.run(sockets=[listener])
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
            self._state.queue.close()
            self._state.text_queue.close()
            self._state.table.stop()
            self.has_computed(CLOSING_SECONDS)

    def has_computed(self, timeout: float = 0.0) -> bool:
        """Wait until no thread computes or loads any more, and return whether this is so."""
        end, state = time.monotonic() + timeout, self._state
        return all(
            wait(max(0.0, end - time.monotonic()))
            for wait in (state.worker.join, state.text_worker.join, state.table.join)
        )

    def _finish_load(self, error: BaseException | None) -> None:
        """Stop the server if a model cannot be loaded."""
        # Otherwise each full scan of the collector covers all modules and models, for 200 ms.
        gc.freeze()
        if error is not None:
            self.load_error = self.load_error or error.__cause__
            self._state.table.stop()
            self.should_exit = True

    def stop(self) -> None:
        """Stop after all accepted requests; at once if this is called again."""
        if self._state.is_stopping:
            self.should_exit = self.force_exit = True
        self._state.is_stopping = True
        self._stop_until = time.monotonic() + self._state.config.shutdown_timeout

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs. uvicorn would raise them again afterwards."""
        previous = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; called ten times per second. Also returns freed memory."""
        is_idle = not self._state.n_active
        if self._trimmer.is_due(self._state.memory.n_freed, is_idle=is_idle):
            await asyncio.to_thread(self._trimmer.trim)
        if self._state.is_stopping:
            n_active = self._state.n_active
            if n_active and time.monotonic() >= self._stop_until:
                self.n_unfinished = n_active
                logger.warning("%d requests were not finished in time.", n_active)
            rest = self._stop_until - time.monotonic()
            if not n_active or rest <= 0:
                self.should_exit = True
                # Clients may still be reading their answers.
                self.config.timeout_graceful_shutdown = max(CLOSING_SECONDS, int(rest))
        return await super().on_tick(counter)


def open_listener(config: ServeConfig) -> socket.socket:
    """Return a socket that listens on the host and port of a config."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio disables Nagle's algorithm only for sockets that name their protocol. With it, the end
    # of an answer waits for 40 ms. `socket.create_server` does not name it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.listen(MAX_CONNECTIONS)
        return listener
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"The server cannot listen on {config.host}, port {config.port}: {error.strerror}. "
            "Set another --host or --port."
        ) from None
