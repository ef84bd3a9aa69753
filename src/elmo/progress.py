"""Progress output on standard error: a bar with an ETA on a terminal, otherwise log lines.

`hidden_progress` hides the progress of everything that is called in a block.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

# Seconds between two plain lines, to keep logs short.
PLAIN_INTERVAL = 10.0


_is_hidden: ContextVar[bool] = ContextVar("is_hidden", default=False)


@contextmanager
def hidden_progress(hide: bool = True) -> Iterator[None]:
    """Hide progress bars, progress lines and messages about progress in the block."""
    token = _is_hidden.set(hide)
    try:
        yield
    finally:
        _is_hidden.reset(token)


def progress_is_hidden() -> bool:
    """Whether the caller is in a block of `hidden_progress`."""
    return _is_hidden.get()


def progress_message(text: str) -> None:
    """Print a line on standard error, unless progress is hidden."""
    if not progress_is_hidden():
        sys.stderr.write(f"{text}\n")


def duration(seconds: float, *, decimal: bool = False) -> str:
    """Format a duration as `2 h 22 min` or, below ten seconds with `decimal`, as `0.3 s`."""
    if decimal and seconds < 9.95:
        return f"{seconds:.1f} s"
    left = round(seconds)
    units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
    for (name, size), (smaller, part) in pairwise(units):
        if left >= size:
            rest = left % size // part
            return f"{left // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{left} s"


def format_count(number: float, noun: str, spec: str = ",") -> str:
    """Return a count followed by its noun, given in the singular, in the right number."""
    count = f"{number:{spec}}"
    return f"{count} {noun}" + ("" if count == "1" else "s")


class Progress:
    """Context manager that shows progress towards a total."""

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        show: bool = True,
        done: int = 0,
    ) -> None:
        """Set up the progress display, which is not shown yet.

        The total is None if unknown. Units `done` before do not count in the ETA. The unit is a
        plural.
        """
        self.description = description
        self.total = total
        self.unit = unit
        self.show = show and not progress_is_hidden()
        self.done = float(done)
        self._before = done
        self._started = self._last_line = time.monotonic()
        self._bar: RichBar | None = None

    def __enter__(self) -> "Progress":
        self._started = self._last_line = time.monotonic()
        if self.show and sys.stderr.isatty():
            self._bar = RichBar(self.description, self.total, self.unit, self._before)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: float) -> None:
        """Add completed units."""
        self.done += count
        if self._bar is not None:
            self._bar.advance(count)
        elif self.show and time.monotonic() - self._last_line >= PLAIN_INTERVAL:
            self._last_line = time.monotonic()
            sys.stderr.write(self._line() + "\n")

    @property
    def seconds_spent(self) -> float:
        """Time since the start in seconds."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time in seconds, or None if the total is unknown."""
        if not self.total:
            return None
        return self.seconds_spent * (self.total - self.done) / max(1.0, self.done - self._before)

    def _line(self) -> str:
        if (left := self.seconds_left) is None:
            return f"{self.description}: {self.done:,.0f} {self.unit}"
        return (
            f"{self.description}: {self.done:,.0f} of {self.total:,} {self.unit}, "
            f"about {duration(left)} left"
        )


class RichBar:
    """Progress bar for terminals. Imports rich only when a bar is created."""

    def __init__(self, description: str, total: int | None, unit: str, done: int) -> None:
        """Show a bar. The arguments are those of `Progress`."""
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, TextColumn
        from rich.progress import Progress as Bars
        from rich.text import Text

        class TimeLeftColumn(ProgressColumn):
            """Column with the estimated remaining time."""

            def render(self, task: Any) -> Text:
                """Return the remaining time, or an empty text before it is known."""
                left = task.time_remaining
                return Text("" if left is None else f"{duration(left)} left")

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} " + unit),
            TimeLeftColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bars.start()
        self._task = self._bars.add_task(description, total=total, completed=done)

    def advance(self, count: float) -> None:
        """Add completed units."""
        self._bars.advance(self._task, count)

    def stop(self) -> None:
        """Remove the bar."""
        self._bars.stop()
