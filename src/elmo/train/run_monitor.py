"""Reports the progress of a run: messages, the progress line, log files and curves."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from elmo.train.curves import draw_curves
from elmo.train.progress_line import ProgressLine
from elmo.train.report import Report
from elmo.train.run_state import RunState
from elmo.train.trainable import Evaluation, RunSettings, RunSize, StepResult


class RunMonitor:
    """Prints and logs the events of a run, in its first process only."""

    def __init__(self, config: RunSettings, trainable: RunSize, *, is_first: bool) -> None:
        self.config, self.trainable, self.is_first = config, trainable, is_first
        self.line = ProgressLine(
            n_steps=trainable.n_steps, steps_per_epoch=trainable.steps_per_epoch, show=is_first
        )
        self._report: Report | None = None

    @contextmanager
    def opened(self, resume_step: int | None) -> Iterator[None]:
        """Open the log files, without the events after a step, and display the progress line."""
        with ExitStack() as stack:
            if self.is_first:
                report = Report(Path(self.config.out), self.config, resume_step)
                self._report = stack.enter_context(report)
            stack.enter_context(self.line.displayed())
            yield

    def step(self, step: int, rate: float) -> None:
        """Show a completed step."""
        self.line.update(step, self.trainable.tokens_per_step, rate)

    def message(self, step: int, *, is_evaluated: bool) -> None:
        """Print the message after a step or after its evaluation, if there is one."""
        message = self.trainable.message(step, is_evaluated=is_evaluated)
        if message is not None:
            self.line.write(message)
            self.line.restart_clock()

    def losses(self, step: int, losses: Sequence[float], result: StepResult) -> None:
        """Show and log the mean losses since the last log entry, and the result of a step."""
        loss = sum(losses) / len(losses)
        self.line.update_loss(loss)
        if self._report is not None:
            values = {
                "epoch": step / self.trainable.steps_per_epoch,
                "loss": loss,
                **dict(zip(self.trainable.loss_names, losses, strict=True)),
                "learning_rate": result.rate,
                "gradient_norm": float(result.norm),
                "tokens_per_second": self.line.tokens_per_second,
            }
            self._report.step(step, values)

    def evaluation(self, step: int, evaluation: Evaluation, *, is_best: bool) -> None:
        """Print and log an evaluation on the held-out data."""
        if self._report is not None:
            self._report.evaluation(step, evaluation.values())
        self.line.write(
            f"step {step:,}, epoch {step / self.trainable.steps_per_epoch:.2f}: "
            f"{evaluation.line()}{'' if is_best else ' (no improvement)'}"
        )
        self.line.restart_clock()

    def rollback(self, diverged_step: int, state: RunState, reason: str) -> None:
        """Print and log the return from a diverged step to the state of a checkpoint."""
        if self._report is not None:
            values = {
                "diverged_step": diverged_step,
                "rate_factor": state.rate_factor,
                "reason": reason,
            }
            self._report.rollback(state.step, values)
        self.line.write(
            f"Training diverged before step {diverged_step:,}. Returning to step "
            f"{state.step:,} with {state.rate_factor:.3g} times the learning rate."
        )
        self.line.restart_clock()

    def draw_curves(self) -> None:
        """Draw the logged losses and evaluations."""
        if self.is_first:
            draw_curves(Path(self.config.out), self.trainable.loss_unit)
