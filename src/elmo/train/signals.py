"""Ctrl-C and SIGTERM while training: the step is finished, a checkpoint written, then it stops."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """Remembers a signal while it is entered; outside, signals do what they did before."""

    def __init__(self) -> None:
        """Begin without a signal."""
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        """Take over the signals, where that is possible: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            # Asked twice, it stops at once; the last checkpoint is whole.
            raise KeyboardInterrupt
        self.number = number

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def raise_(self) -> None:
        """Stop as the signal would have."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is not None:
            raise SystemExit(128 + self.number)
