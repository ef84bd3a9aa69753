"""Handles Ctrl-C and SIGTERM, so that a run can write a checkpoint before it stops."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

# Seconds within which a repeated SIGTERM is the same request: timeout(1) sends it twice.
REPEAT_SECONDS = 1.0


class StopRequest:
    """Context manager that records SIGINT and SIGTERM instead of terminating the process."""

    def __init__(self) -> None:
        """Initialize without a recorded signal."""
        self.number: int | None = None
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        """Install the signal handlers, which Python allows only in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
        return self

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number, self._since = number, time.monotonic()
        elif number == signal.SIGINT or time.monotonic() - self._since >= REPEAT_SECONDS:
            # The second signal stops the program immediately.
            raise _exception(number)

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def raise_(self) -> None:
        """Raise the exception for the recorded signal, if there is one."""
        if self.number is not None:
            raise _exception(self.number)


def _exception(number: int) -> BaseException:
    """Return the exception that ends the program after a signal."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
