"""Requests that wait to be computed, and the operations that compute them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock
from typing import ClassVar, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Operation(ABC, Generic[Item, Result]):
    """A computation on items of several requests. Equal operations share a batch."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def subject(self) -> str:
        """Name of the model or task, for metrics."""

    @property
    def position_cost(self) -> int:
        """Number of positions of word vectors that take as long as a position of this operation."""
        return 1

    @abstractmethod
    def n_positions(self, item: Item) -> int:
        """Return the number of positions to compute for an item, at least 1."""

    def cost(self, item: Item) -> int:
        """Return the cost of an item, in positions of word vectors."""
        return self.n_positions(item) * self.position_cost

    def n_result_bytes(self, item: Item) -> int:
        """Return the number of bytes of the result of an item; 0 if it needs little memory."""
        return 0

    @abstractmethod
    def run(self, items: Sequence[Item]) -> Sequence[Result]:
        """Return the result of each item."""


class QueuedRequest(Generic[Item, Result]):
    """Items of one request. Several batches can compute them; the future has all results.

    Cancelling the future removes the request from its queue.
    """

    def __init__(
        self, operation: Operation[Item, Result], items: Sequence[Item], host: str = ""
    ) -> None:
        """Create a request that is not queued yet.

        Args:
            operation: The computation.
            items: Items of the operation, at least one.
            host: Address of the client. Clients take turns.
        """
        self.operation, self.items, self.host = operation, items, host
        self.costs = [operation.cost(item) for item in items]
        self.future: Future[list[Result]] = Future()
        self.queued_at = time.monotonic()
        self.started_at: float | None = None
        self.next_item = 0
        # Results of items by the index of the first one. Threads can finish in any order.
        self._results: dict[int, Sequence[Result]] = {}
        self._lock = Lock()

    @property
    def n_words(self) -> int:
        """Number of positions that no batch has taken yet."""
        return sum(self.costs[self.next_item :])

    @property
    def is_taken(self) -> bool:
        """Whether batches have taken all items."""
        return self.next_item == len(self.items)

    def add_results(self, first: int, results: Sequence[Result]) -> None:
        """Add the results of items from the index `first` on; the last ones complete the future."""
        with self._lock:
            self._results[first] = results
            is_complete = sum(map(len, self._results.values())) == len(self.items)
        if is_complete and self.future.set_running_or_notify_cancel():
            parts = sorted(self._results.items())
            self.future.set_result([result for _, part in parts for result in part])

    def fail(self, error: Exception) -> None:
        """Complete the future with an error. Items that are not taken yet are dropped."""
        with self._lock:
            if not self.future.done() and self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
