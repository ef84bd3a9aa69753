"""Prefetches batches in a background thread, so that the device does not wait for the host."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
END = object()


def prefetched(items: Iterable[Item], ahead: int = 4) -> Generator[Item]:
    """Yield items in order, produced in advance by a background thread.

    If the iterable raises an error, the error is raised here after all items before it. At most
    `ahead` items wait, not counting the one being produced.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "prefetch") as thread:
        futures: deque[Future[Any]] = deque(
            thread.submit(next, iterator, END) for _ in range(ahead + 1)
        )
        try:
            while (item := futures.popleft().result()) is not END:
                futures.append(thread.submit(next, iterator, END))
                yield item
        finally:
            for future in futures:
                future.cancel()
