"""Progress line of a training run: epoch, step, speed, time left, loss and learning rate.

During an evaluation it shows the number of evaluated batches and the time left.

On a terminal the line is updated in place; otherwise a new line is printed at regular intervals.
Only one process of a run displays it.
"""

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elmo.progress import duration, progress_is_hidden

# Seconds between two lines if the output is not a terminal.
LINE_INTERVAL = 30.0
# Number of updates over which the speed is averaged.
SPEED_UPDATES = 50
# Steps before the clock starts, and steps timed for the estimate of the remaining time.
WARM_UP, TIMED = 3, 20


class ProgressLine:
    """The progress of a run."""

    def __init__(self, *, n_steps: int, steps_per_epoch: float, show: bool = True) -> None:
        self.n_steps = n_steps
        self.steps_per_epoch = steps_per_epoch
        self.show = show and not progress_is_hidden()
        self.step = self._first_step = 0
        self.loss: float | None = None
        self.learning_rate: float | None = None
        # Time, step and number of tokens at the latest updates.
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=SPEED_UPDATES)
        self._n_tokens = 0
        self._last_line = 0.0
        self._bars: Any = None
        self._evaluation_start, self._n_batches = 0.0, 0
        self.restart_clock()

    @contextmanager
    def displayed(self) -> Iterator[None]:
        """Display the progress line, starting at the current step."""
        self._first_step = self.step
        self.restart_clock()
        self._last_line = time.monotonic()
        if self.show and sys.stderr.isatty():
            self._bars = _rich_bars()
            self._bars.start()
            self._task = self._bars.add_task("", total=self.n_steps, completed=self.step)
        try:
            yield
        finally:
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def restart_clock(self) -> None:
        """Restart the speed measurement, for example after a pause for an evaluation."""
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
        """Update the progress after `n_tokens` more tokens, over all processes.

        Without a value, the displayed loss and learning rate stay, which avoids reading them from
        the device at every step.
        """
        self.step = step
        self._n_tokens += n_tokens
        self._samples.append((time.monotonic(), step, self._n_tokens))
        self.loss = self.loss if loss is None else loss
        self.learning_rate = self.learning_rate if learning_rate is None else learning_rate
        if self._bars is not None:
            self._bars.update(self._task, completed=step, description=str(self))
        elif self.show and time.monotonic() - self._last_line >= LINE_INTERVAL:
            self._last_line = time.monotonic()
            sys.stderr.write(f"{self}\n")

    def start_evaluation(self, n_batches: int) -> None:
        """Start to show the progress of an evaluation with the given number of batches."""
        self._evaluation_start = self._last_line = time.monotonic()
        self._n_batches = n_batches

    def update_evaluation(self, n_done: int) -> None:
        """Show how many batches of the evaluation are done, and the time left."""
        now = time.monotonic()
        if self._bars is None and (not self.show or now - self._last_line < LINE_INTERVAL):
            return
        text = f"evaluation at step {self.step:,}, batch {n_done:,} of {self._n_batches:,}"
        if n_done:
            left = (now - self._evaluation_start) * max(0, self._n_batches - n_done) / n_done
            text += f", {duration(left)} left"
        if self._bars is not None:
            self._bars.update(self._task, description=text)
        else:
            self._last_line = now
            sys.stderr.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Print a permanent message above the progress line."""
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        elif self.show:
            sys.stderr.write(f"{text}\n")

    def print_time_left(self) -> None:
        """Print the estimated remaining time once enough steps have been timed."""
        n_done = self.step - self._first_step
        if n_done == WARM_UP:
            self.restart_clock()
        if n_done == WARM_UP + TIMED and self.seconds_left is not None:
            self.write(
                f"{self.tokens_per_second:,.0f} tokens/s: about "
                f"{duration(self.seconds_left)} left, without evaluations"
            )

    @property
    def tokens_per_second(self) -> float:
        """Average speed over the latest updates; 0 before the first update."""
        (begin, _, first), (end, _, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time in seconds; None before the first update."""
        (begin, first, _), (end, last, _) = self._samples[0], self._samples[-1]
        if last == first:
            return None
        return (end - begin) / (last - first) * max(0, self.n_steps - self.step)

    def __str__(self) -> str:
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


def _rich_bars() -> Any:
    """Create a progress bar; rich is imported only if the output is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
