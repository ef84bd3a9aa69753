"""Return of freed memory to the operating system."""

import ctypes
import time
from collections.abc import Callable
from typing import cast

# Bytes that are freed before memory is returned.
TRIM_BYTES = 2**25
# Seconds after which memory is returned even though requests are in progress.
BUSY_SECONDS = 30.0


class MemoryTrimmer:
    """Returns the memory of answers to the operating system when the server is idle.

    glibc maps a large block on its own only until such a block is freed: this raises its threshold
    (M_MMAP_THRESHOLD), and later ones come from the heap. The heap cannot shrink because small
    blocks, such as those of closed connections, lie between the free ones: after eight waves of 20
    answers of 11 MB, 840 MB of 1,010 MB were free. A constant threshold of 1 MB avoids this, but a
    batch then takes 15 % more CPU time, because each large array is mapped anew.
    """

    def __init__(self) -> None:
        """Look for the function of glibc. Other C libraries have none, and nothing is done."""
        self._trim = _malloc_trim()
        self._n_freed, self._trimmed_at = 0, time.monotonic()

    def is_due(self, n_freed: int, *, is_idle: bool) -> bool:
        """Return whether to call `trim`.

        Args:
            n_freed: Number of bytes that were freed since the start.
            is_idle: Whether no request is in progress.
        """
        if self._trim is None or n_freed - self._n_freed < TRIM_BYTES:
            return False
        if not is_idle and time.monotonic() - self._trimmed_at < BUSY_SECONDS:
            return False
        self._n_freed, self._trimmed_at = n_freed, time.monotonic()
        return True

    def trim(self) -> None:
        """Return freed memory. Other threads run meanwhile, but may wait to allocate memory."""
        if self._trim is not None:
            self._trim(0)


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return cast(Callable[[int], int], ctypes.CDLL(None).malloc_trim)
    except (AttributeError, OSError, TypeError):
        return None
