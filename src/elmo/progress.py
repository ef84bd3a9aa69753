"""Progress on standard error: a bar with an ETA on a terminal, now and then a line elsewhere."""

import sys
import time
from types import TracebackType

# Seconds between two plain lines; a log is to be read, not filled.
PLAIN_INTERVAL = 10.0


class Progress:
    """A count towards a total, shown while it is entered."""

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        show: bool = True,
        done: int = 0,
    ) -> None:
        """Prepare, showing nothing yet.

        Args:
            description: what is being done.
            total: how many units there are, or None where that is not known.
            unit: their plural.
            show: whether to show anything at all.
            done: units that were done before; they tell nothing of the time the others take.
        """
        self.description = description
        self.total = total
        self.unit = unit
        self.show = show
        self.done = float(done)
        self._before = done
        self._started = self._last_line = time.monotonic()
        self._bar: RichBar | None = None

    def __enter__(self) -> "Progress":
        """Begin to show."""
        self._started = self._last_line = time.monotonic()
        if self.show and sys.stderr.isatty():
            self._bar = RichBar(self.description, self.total, self.unit, self._before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: float) -> None:
        """Count on."""
        self.done += count
        if self._bar is not None:
            self._bar.advance(count)
        elif self.show and time.monotonic() - self._last_line >= PLAIN_INTERVAL:
            self._last_line = time.monotonic()
            sys.stderr.write(self._line() + "\n")

    def _line(self) -> str:
        if not self.total:
            return f"{self.description}: {self.done:,.0f} {self.unit}"
        spent = time.monotonic() - self._started
        left = spent * (self.total - self.done) / max(1.0, self.done - self._before)
        return (
            f"{self.description}: {self.done:,.0f} of {self.total:,} {self.unit}, "
            f"about {left:,.0f} s left"
        )


class RichBar:
    """The bar shown on a terminal; rich is imported only where there is one."""

    def __init__(self, description: str, total: int | None, unit: str, done: int) -> None:
        """Show a bar; the arguments are those of `Progress`."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} " + unit),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bars.start()
        self._task = self._bars.add_task(description, total=total, completed=done)

    def advance(self, count: float) -> None:
        """Count on."""
        self._bars.advance(self._task, count)

    def stop(self) -> None:
        """Take the bar away."""
        self._bars.stop()
