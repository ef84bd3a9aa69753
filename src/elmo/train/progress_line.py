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
# Number of timed losses over which the speed is averaged.
SPEED_LOSSES = 20
# Number of steps timed for the first estimate of the remaining time.
TIMED_STEPS = 20


class ProgressLine:
    """The progress of a run."""

    def __init__(self, *, n_steps: int, steps_per_epoch: float, show: bool = True) -> None:
        self.n_steps = n_steps
        self.steps_per_epoch = steps_per_epoch
        self.show = show and not progress_is_hidden()
        self.step = 0
        self.loss: float | None = None
        self.learning_rate: float | None = None
        # Time, step and number of tokens at the latest losses.
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=SPEED_LOSSES)
        self._n_tokens = 0
        # Whether the times include the first steps, which compile kernels and allocate memory.
        self._is_cold, self._has_printed_time = True, False
        self._last_line = 0.0
        self._bars: Any = None
        self._evaluation_start, self._n_batches = 0.0, 0
        self.restart_clock()

    @contextmanager
    def displayed(self) -> Iterator[None]:
        """Display the progress line, starting at the current step."""
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
        self._is_cold = self._is_cold and len(self._samples) < 2
        self._samples.clear()
        self._samples.append((time.monotonic(), self.step, self._n_tokens))

    def update(self, step: int, n_tokens: int, learning_rate: float) -> None:
        """Update the progress after `n_tokens` more tokens, over all processes."""
        self.step = step
        self._n_tokens += n_tokens
        self.learning_rate = learning_rate
        self._show()

    def update_loss(self, loss: float) -> None:
        """Update the loss and the speed, at the step of the last update.

        Only here steps are timed: reading a loss waits for the device, while an update after a step
        only means that the step was launched.
        """
        self.loss = loss
        if self._is_cold and len(self._samples) > 1:
            self._is_cold = False
            self._samples.popleft()
        self._samples.append((time.monotonic(), self.step, self._n_tokens))
        self._show()
        self._print_time_left()

    def _show(self) -> None:
        if self._bars is not None:
            self._bars.update(self._task, completed=self.step, description=str(self))
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

    def _print_time_left(self) -> None:
        """Print the estimated remaining time once enough steps have been timed."""
        n_timed = self.step - self._samples[0][1]
        if self._is_cold or self._has_printed_time or n_timed < TIMED_STEPS:
            return
        assert self.seconds_left is not None
        self._has_printed_time = True
        self.write(
            f"{self.tokens_per_second:,.0f} tokens/s: about {duration(self.seconds_left)} left, "
            "without evaluations"
        )

    @property
    def tokens_per_second(self) -> float:
        """Average speed over the latest losses; 0 before the first loss."""
        (begin, _, first), (end, _, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time in seconds; None before the first loss."""
        (begin, first, _), (end, last, _) = self._samples[0], self._samples[-1]
        if last == first:
            return None
        return (end - begin) / (last - first) * max(0, self.n_steps - self.step)

    def __str__(self) -> str:
        parts = [
            f"epoch {self.step / self.steps_per_epoch:.2f}",
            f"step {self.step:,} of {self.n_steps:,}",
        ]
        if self.seconds_left is not None:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
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
