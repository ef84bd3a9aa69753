"""Names of models and tasks that the server loads, at its start or on first use."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import Generic, Literal, TypeVar

from elmo.serve.loaded_model import LoadedModel
from elmo.serve.loaded_task import LoadedTask
from elmo.serve.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")
LoadState = Literal["not loaded", "loading", "ready", "failed"]

# Seconds after which a model that could not be loaded is tried again.
RETRY_SECONDS = 60.0


class LoadFailed(Exception):
    """Raised to requests of a model that could not be loaded; the reason is in the log."""


class TableEntry(Generic[Loaded]):
    """A model or task that is loaded once, by a thread."""

    def __init__(self, name: str, load: Callable[[], Loaded], lock: Lock, stopped: Event) -> None:
        """Describe what to load.

        Args:
            name: Name of the model or task.
            load: Function that loads it.
            lock: Lock that is held while loading, so that one loads at a time.
            stopped: Event after which nothing begins to load.
        """
        self.name = name
        self._load, self._loading, self._stopped, self._lock = load, lock, stopped, Lock()
        self._thread: Thread | None = None
        self._future: Future[Loaded] | None = None
        self._failed_at = 0.0

    @property
    def state(self) -> LoadState:
        """What is known about the model."""
        if self._future is None:
            return "not loaded"
        if not self._future.done():
            return "loading"
        return "ready" if self._future.exception() is None else "failed"

    def value(self) -> Loaded | None:
        """Return what was loaded; None if it is not ready."""
        return self._future.result() if self._future and self.state == "ready" else None

    def request(self) -> Future[Loaded]:
        """Return a future, which cannot be cancelled, and load if this is the first request.

        After a failure, the future raises `LoadFailed` until it is time for the next attempt.
        """
        with self._lock:
            is_due = time.monotonic() - self._failed_at >= RETRY_SECONDS
            if self._future is None or (self.state == "failed" and is_due):
                self._future = Future()
                self._future.set_running_or_notify_cancel()
                args = (self._future,)
                self._thread = Thread(target=self._run, args=args, name="load", daemon=True)
                self._thread.start()
            return self._future

    def join(self, timeout: float) -> bool:
        """Wait until the thread that loads has ended, and return whether it has."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, future: Future[Loaded]) -> None:
        lower_thread_priority()
        with self._loading:
            # Nobody waits for the future of a server that has stopped.
            if not self._stopped.is_set():
                self._complete(future)

    def _complete(self, future: Future[Loaded]) -> None:
        try:
            value = self._load()
        except Exception as error:
            self._failed_at = time.monotonic()
            logger.error("%s could not be loaded: %s", self.name, error)
            failure = LoadFailed(f"{self.name} could not be loaded.")
            failure.__cause__ = error
            future.set_exception(failure)
        else:
            future.set_result(value)


class ModelTable:
    """Models and tasks by the names that requests use. The first model is the default."""

    def __init__(
        self,
        models: Mapping[str, Callable[[], LoadedModel]],
        tasks: Mapping[str, Callable[[], LoadedTask]],
        *,
        lazy: bool = False,
    ) -> None:
        """Create the table; nothing is loaded yet.

        Args:
            models: Function that loads each model.
            tasks: Function that loads each task.
            lazy: Whether models and tasks are loaded on first use.
        """
        loading, stopped = Lock(), Event()
        self.models = {
            name: TableEntry(name, load, loading, stopped) for name, load in models.items()
        }
        self.tasks = {
            name: TableEntry(name, load, loading, stopped) for name, load in tasks.items()
        }
        self.lazy, self._stopped = lazy, stopped

    @property
    def default_model(self) -> str:
        """Name of the model of requests that name none."""
        return next(iter(self.models))

    @property
    def is_ready(self) -> bool:
        """Whether everything that must be loaded is loaded."""
        return self.lazy or all(entry.state == "ready" for entry in self._entries())

    def start(self) -> list[Future[LoadedModel] | Future[LoadedTask]]:
        """Start to load everything, unless the table is lazy, and return the futures."""
        return [] if self.lazy else [entry.request() for entry in self._entries()]

    def stop(self) -> None:
        """Let nothing further begin to load."""
        self._stopped.set()

    def join(self, timeout: float) -> bool:
        """Wait until nothing is being loaded, and return whether this is so."""
        end = time.monotonic() + timeout
        return all(entry.join(max(0.0, end - time.monotonic())) for entry in self._entries())

    def _entries(self) -> Iterator[TableEntry[LoadedModel] | TableEntry[LoadedTask]]:
        yield from self.models.values()
        yield from self.tasks.values()
