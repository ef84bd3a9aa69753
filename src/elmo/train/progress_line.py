"""The line a training run shows: epoch, step, speed, time left, loss, learning rate.

On a terminal it stays in its place; elsewhere it is written now and then. It shows nothing where
it is told not to, which is how all processes but one are kept silent.
"""

import sys
import time
from collections import deque
from itertools import pairwise
from types import TracebackType
from typing import Any

# Seconds between two plain lines; a log is to be read, not filled.
PLAIN_INTERVAL = 30.0
# Speed is that of so many latest updates: a pause for an evaluation is soon forgotten.
WINDOW = 50


class ProgressLine:
    """Where a run stands, shown while it is entered."""

    def __init__(
        self, *, n_steps: int, steps_per_epoch: float, first_step: int = 0, show: bool = True
    ) -> None:
        """Prepare, showing nothing yet.

        Args:
            n_steps: of the whole run.
            steps_per_epoch: steps in which the text is read once.
            first_step: steps done already, where a run goes on.
            show: whether to show anything at all.
        """
        self.n_steps = n_steps
        self.steps_per_epoch = steps_per_epoch
        self.show = show
        self.step = first_step
        self.loss: float | None = None
        self.learning_rate: float | None = None
        # Time, step and tokens at the latest updates.
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)
        self._n_tokens = 0
        self._last_line = 0.0
        self._bars: Any = None
        self.restart_clock()

    def __enter__(self) -> "ProgressLine":
        """Begin to show."""
        self.restart_clock()
        self._last_line = time.monotonic()
        if self.show and sys.stderr.isatty():
            self._bars = _rich_bars()
            self._bars.start()
            self._task = self._bars.add_task("", total=self.n_steps, completed=self.step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the line away."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def restart_clock(self) -> None:
        """Forget the speed so far, after a pause that says nothing of it."""
        self._samples.clear()
        self._samples.append((time.monotonic(), self.step, self._n_tokens))

    def update(
        self,
        step: int,
        n_tokens: int,
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
    ) -> None:
        """Go on.

        Args:
            step: steps done in all.
            n_tokens: read since the last update, by all processes.
            loss: the latest; None leaves the one before, for to ask a device costs time.
            learning_rate: likewise.
        """
        self.step = step
        self._n_tokens += n_tokens
        self._samples.append((time.monotonic(), step, self._n_tokens))
        self.loss = self.loss if loss is None else loss
        self.learning_rate = self.learning_rate if learning_rate is None else learning_rate
        if self._bars is not None:
            self._bars.update(self._task, completed=step, description=str(self))
        elif self.show and time.monotonic() - self._last_line >= PLAIN_INTERVAL:
            self._last_line = time.monotonic()
            sys.stderr.write(f"{self}\n")

    def write(self, text: str) -> None:
        """Write lines that stay, such as the result of an evaluation."""
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        elif self.show:
            sys.stderr.write(f"{text}\n")

    @property
    def tokens_per_second(self) -> float:
        """Speed of the latest updates; 0 before the first."""
        (begin, _, first), (end, _, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Time to the last step at the present speed; None before it is known."""
        (begin, first, _), (end, last, _) = self._samples[0], self._samples[-1]
        if last == first:
            return None
        return (end - begin) / (last - first) * max(0, self.n_steps - self.step)

    def __str__(self) -> str:
        """Say where the run stands."""
        parts = [
            f"epoch {self.step / self.steps_per_epoch:.2f}",
            f"step {self.step:,} of {self.n_steps:,}",
            f"{self.tokens_per_second:,.0f} tokens/s",
        ]
        if self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if self.learning_rate is not None:
            parts.append(f"rate {self.learning_rate:.3g}")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Write a time in its two largest units."""
    left = round(seconds)
    units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
    for (name, size), (smaller, part) in pairwise(units):
        if left >= size:
            rest = left % size // part
            return f"{left // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{left} s"


def _rich_bars() -> Any:
    """Make the bar of a terminal; rich is imported only where there is one."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
