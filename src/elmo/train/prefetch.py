"""Prefetches batches in a background thread, so that the device does not wait for the host."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterable[Item], ahead: int) -> Generator[Item]:
    """Yield items in order, produced in advance by a background thread.

    If the iterable raises an error, the error is raised here after all items before it.

    Args:
        items: Iterable that is consumed by the background thread.
        ahead: Maximum number of items in the queue, not counting the one being produced.
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def put(tag: str, value: Any) -> None:
        while not stop.is_set():
            try:
                ready.put((tag, value), timeout=0.1)
                return
            except queue.Full:
                continue

    def produce() -> None:
        try:
            for item in items:
                put("item", item)
                if stop.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=produce, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            tag, value = ready.get()
            if tag == "end":
                return
            if tag == "error":
                raise value
            yield value
    finally:
        stop.set()
        thread.join()
