"""Requests to stop a run before its last step: Ctrl-C, SIGTERM, and the time limit.

After a request, the run writes a checkpoint before it stops.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from elmo.config import RunConfig

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Seconds within which a repeated SIGTERM is the same request: timeout(1) sends it twice.
REPEAT_SECONDS = 1.0


@dataclass
class StopRequest:
    """Records the number of a signal and watches the time limit.

    With several processes, all must stop at the same step. Their requests are only synchronized in
    steps that are logged. The deadline is on the monotonic clock.
    """

    fabric: "Fabric"
    run: RunConfig
    number: int | None = None
    deadline: float = math.inf
    _since: float = 0.0

    @contextmanager
    def recorded_signals(self) -> Iterator[None]:
        """Record SIGINT and SIGTERM instead of terminating the process.

        Python allows this only in the main thread; in others, nothing is recorded.
        """
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        before = {number: signal.signal(number, self._record) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number, self._since = number, time.monotonic()
        elif number == signal.SIGINT or time.monotonic() - self._since >= REPEAT_SECONDS:
            # The second signal stops the program immediately.
            raise _exception(number)

    def start_time_limit(self) -> None:
        """Start the time limit of the run, if it has one."""
        if self.run.max_minutes is not None:
            self.deadline = time.monotonic() + 60 * self.run.max_minutes

    def is_signaled(self, step: int) -> bool:
        """Whether any process has received a signal to stop."""
        is_signaled = self._is_true_anywhere(self.number is not None, step)
        if is_signaled and self.number is None:
            self.number = signal.SIGINT
        return is_signaled

    def is_out_of_time(self, step: int) -> bool:
        """Whether the time limit is reached in any process."""
        if self.run.max_minutes is None:
            return False
        return self._is_true_anywhere(time.monotonic() >= self.deadline, step)

    def _is_true_anywhere(self, value: bool, step: int) -> bool:
        """Whether the value is true in any process; False in steps that are not logged."""
        if self.fabric.world_size == 1:
            return value
        if step % self.run.log_every:
            return False
        total: Any = self.fabric.all_reduce(
            torch.tensor(float(value), device=self.fabric.device), reduce_op="sum"
        )
        return bool(float(total))

    def raise_(self) -> None:
        """Raise the exception for the recorded signal, if there is one."""
        if self.number is not None:
            raise _exception(self.number)


def _exception(number: int) -> BaseException:
    """Return the exception that ends the program after a signal."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
