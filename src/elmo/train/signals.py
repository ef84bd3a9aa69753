"""Handles Ctrl-C and SIGTERM, so that a run can write a checkpoint before it stops."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """Context manager that records SIGINT and SIGTERM instead of terminating the process."""

    def __init__(self) -> None:
        """Initialize without a recorded signal."""
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        """Install the signal handlers, which Python allows only in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
        return self

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            # The second signal stops the program immediately.
            raise KeyboardInterrupt
        self.number = number

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
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            raise SystemExit(128 + self.number)
