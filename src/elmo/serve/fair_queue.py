"""Bounded queue of requests, from which clients take turns."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Condition, RLock
from typing import cast
from weakref import ref

from elmo.serve.fair_limit import FairLimit
from elmo.serve.queued_request import Item, Operation, QueuedRequest, Result

AnyRequest = QueuedRequest[object, object]

# Positions of a request that are computed before it is the turn of another one.
SLICE_WORDS = 512


class QueueFull(Exception):
    """Raised by `put` if the queue has reached a limit."""


class QueueClosed(Exception):
    """Raised by `put` after `close`."""


@dataclass(frozen=True)
class Slice:
    """Consecutive items of a request."""

    request: AnyRequest
    start: int
    stop: int

    @property
    def items(self) -> list[object]:
        """The items themselves."""
        return list(self.request.items[self.start : self.stop])

    @property
    def n_words(self) -> int:
        """Number of positions of the items."""
        return sum(self.request.costs[self.start : self.stop])


@dataclass(frozen=True)
class Batch:
    """Items of one or several requests with equal operations."""

    operation: Operation[object, object]
    slices: list[Slice]

    @property
    def n_words(self) -> int:
        """Number of positions of all items."""
        return sum(part.n_words for part in self.slices)


class FairQueue:
    """Queue of requests. Hosts take turns, and requests of a host take turns, one slice each.

    A connection has one request at a time, so turns of requests are also turns of connections.
    A long request needs many turns, so later ones overtake it. After `max_words` positions of
    later requests it is late, and taken before all others. Therefore at most the queue before a
    request, the request itself, `max_words` of later requests and one batch per thread are taken
    until it is complete. Words are counted as positions, with the boundary tokens of sentences.

    Several threads can take batches. One takes whatever is there, so nothing waits for more; the
    others wait until there is much, since small batches compute fewer words per second.
    """

    def __init__(
        self,
        *,
        max_words: int,
        max_requests: int,
        slice_words: int = SLICE_WORDS,
        much_words: int = 1,
    ) -> None:
        """Create an empty queue.

        Args:
            max_words: Maximum number of positions in the queue, a `FairLimit`.
            max_requests: Maximum number of requests in the queue, a `FairLimit`.
            slice_words: Maximum number of positions per turn, or one item.
            much_words: Number of positions in the queue that is much.
        """
        self._max_words = max_words
        self._words, self._requests = FairLimit(max_words), FairLimit(max_requests)
        self._slice_words, self._much_words = slice_words, much_words
        self._hosts: OrderedDict[str, deque[AnyRequest]] = OrderedDict()
        # Requests in the order of `put`. The value is the number of positions that are taken when
        # the request is complete, if none of them belongs to a later request.
        self._ends: OrderedDict[AnyRequest, int] = OrderedDict()
        self._n_taken = 0
        self._lock = RLock()
        # Two conditions, so that a small request wakes only the thread that takes it.
        self._has_some, self._has_much = Condition(self._lock), Condition(self._lock)
        self._is_closed = False

    @property
    def n_words(self) -> int:
        """Number of positions in the queue."""
        return self._words.n_held

    @property
    def n_requests(self) -> int:
        """Number of requests in the queue."""
        return self._requests.n_held

    def is_full(self, host: str) -> bool:
        """Return whether every further request of a host would be rejected."""
        return not (self._words.has_room(host) and self._requests.has_room(host))

    def put(self, request: QueuedRequest[Item, Result]) -> None:
        """Add a request, or raise `QueueFull` or `QueueClosed`."""
        added = cast(AnyRequest, request)
        with self._lock:
            if self._is_closed:
                raise QueueClosed
            has_room = self._words.has_room(added.host, added.n_words)
            if not has_room or not self._requests.has_room(added.host):
                raise QueueFull
            self._hosts.setdefault(added.host, deque()).append(added)
            self._words.add(added.host, added.n_words)
            self._requests.add(added.host)
            self._ends[added] = self._n_taken + self.n_words
            self._has_some.notify()
            if self.n_words >= self._much_words:
                self._has_much.notify()
        # A future keeps its callbacks. With the request in one, it would be a reference cycle, and
        # only the garbage collector, which stops all threads, would free the results.
        reference = ref(added)

        def remove_if_not_computed(future: Future[list[object]]) -> None:
            cancelled = reference()
            if cancelled is not None and not cancelled.is_taken:
                self._remove(cancelled)

        # Also called, at once, if the future is already cancelled.
        added.future.add_done_callback(remove_if_not_computed)

    def take(self, max_words: int, *, much: bool = False) -> Batch | None:
        """Wait for requests and remove a batch of at most `max_words` positions, or one item.

        With `much`, wait until there is much. Returns None after `close` when the queue is empty,
        or no longer has much. The batch has the operation of the request whose turn it is. Requests
        with other operations keep their turn. The batch ends before the first slice that does not
        fit, and before the turn of a late request with another operation.
        """
        with self._lock:
            condition, least = (self._has_much, self._much_words) if much else (self._has_some, 1)
            while self.n_words < least:
                if self._is_closed:
                    return None
                condition.wait()
            first = self._late_request() or next(iter(self._hosts.values()))[0]
            batch = Batch(first.operation, [])
            for request in self._turns(batch.operation):
                part = self._next_slice(request, max_words)
                if batch.slices and batch.n_words + part.n_words > max_words:
                    break
                self._take_slice(part)
                batch.slices.append(part)
            return batch

    def close(self) -> None:
        """Reject further requests. Those in the queue can still be taken."""
        with self._lock:
            self._is_closed = True
            self._has_some.notify_all()
            self._has_much.notify_all()

    def _turns(self, operation: Operation[object, object]) -> Iterator[AnyRequest]:
        """Yield the request whose turn it is. The caller takes a slice of it before the next."""
        while hosts := [host for host in self._hosts if self._next_of(host, operation)]:
            for host in hosts:
                while (late := self._late_request()) is not None:
                    if late.operation != operation:
                        return
                    yield late
                if (request := self._next_of(host, operation)) is not None:
                    yield request

    def _late_request(self) -> AnyRequest | None:
        """Return the oldest request if later ones have overtaken it too far.

        No request is overtaken further than the oldest one.
        """
        for oldest, end in self._ends.items():
            n_overtaking = self._n_taken + oldest.n_words - end
            return oldest if n_overtaking >= self._max_words else None
        return None

    def _next_of(self, host: str, operation: Operation[object, object]) -> AnyRequest | None:
        """Return the next request of a host with an operation; None if there is none."""
        requests = self._hosts.get(host, ())
        return next((each for each in requests if each.operation == operation), None)

    def _next_slice(self, request: AnyRequest, max_words: int) -> Slice:
        """Return what a request contributes in one turn: items of a slice, or a longer item."""
        limit = min(self._slice_words, max_words)
        stop, n_words = request.next_item + 1, request.costs[request.next_item]
        while stop < len(request.items) and n_words + request.costs[stop] <= limit:
            n_words += request.costs[stop]
            stop += 1
        return Slice(request, request.next_item, stop)

    def _take_slice(self, part: Slice) -> None:
        """Remove a slice, and move the rest of its request and its host to the end."""
        request, host = part.request, part.request.host
        requests = self._hosts[host]
        request.next_item = part.stop
        self._words.release(host, part.n_words)
        self._n_taken += part.n_words
        requests.remove(request)
        if request.is_taken:
            self._requests.release(host)
            del self._ends[request]
        else:
            requests.append(request)
        if requests:
            self._hosts.move_to_end(host)
        else:
            del self._hosts[host]

    def _remove(self, request: AnyRequest) -> None:
        """Remove the rest of a request, if it is still in the queue."""
        with self._lock:
            if request not in self._ends:
                return
            requests = self._hosts[request.host]
            requests.remove(request)
            if not requests:
                del self._hosts[request.host]
            self._words.release(request.host, request.n_words)
            self._requests.release(request.host)
            for other in reversed(self._ends):
                if other is request:
                    break
                self._ends[other] -= request.n_words
            del self._ends[request]
