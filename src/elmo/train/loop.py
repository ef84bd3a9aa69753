"""The training loop: steps, logging, evaluation, checkpoints, rollbacks and early stopping.

The loop can train any `Trainable`. It prints the run plan before the first step. A run that was
killed or reached its time limit can be resumed from its last checkpoint, with the same results as
an uninterrupted run.
"""

import dataclasses
import logging
import math
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import torch

from elmo import __version__
from elmo.errors import TrainingError
from elmo.kernels.device import is_out_of_memory
from elmo.progress import duration, format_count
from elmo.threads import restore_threads
from elmo.train import checkpoint
from elmo.train.curves import draw_curves
from elmo.train.devices import make_fabric, reproducible
from elmo.train.prefetch import prefetched
from elmo.train.progress_line import ProgressLine
from elmo.train.report import Report
from elmo.train.run_folder import CHECKPOINTS, MODEL, check_same_run, locked, write_config
from elmo.train.run_state import MAX_RISE, Diverged, RunState
from elmo.train.signals import StopRequest
from elmo.train.step_timing import TIMED, WARM_UP, step_seconds
from elmo.train.trainable import Evaluation, Result, StepResult, TrainingJob

if TYPE_CHECKING:
    from lightning.fabric import Fabric

logger = logging.getLogger(__name__)

PREFETCH_BATCHES = 4
# Key of the `RunState` in checkpoints, and its earlier name, which is still read.
RUN_STATE, EARLIER_RUN_STATE = "run_state", "standing"


def train(job: TrainingJob[Result]) -> Result:
    """Train a model from the beginning, or resume from the last checkpoint in its folder."""
    fabric = make_fabric(job.config.run)
    with ExitStack() as stack:
        stack.enter_context(reproducible(fabric.device, job.config.run))
        folder = Path(job.config.out)
        if fabric.is_global_zero and not job.config.run.dry_run:
            stack.enter_context(locked(folder))
        return Loop(job, fabric, folder).run()


class Stopped(Exception):
    """Raised inside the loop after a signal has requested a stop."""


class Loop(Generic[Result]):
    """The training loop in one process of a run."""

    def __init__(self, job: TrainingJob[Result], fabric: "Fabric", folder: Path) -> None:
        """Move the model to its device and initialize the state of the loop.

        Args:
            job: The training job.
            fabric: `Fabric` object, which defines device and processes.
            folder: The training folder.
        """
        self.job, self.fabric, self.folder = job, fabric, folder
        self.trainable = trainable = job.make_trainable(fabric)
        self.state = RunState(lowest=trainable.chance_loss)
        every = self.job.config.run.evaluate_every
        self.evaluate_every = every or max(1, round(trainable.steps_per_epoch))
        self.line = ProgressLine(
            n_steps=trainable.n_steps,
            steps_per_epoch=trainable.steps_per_epoch,
            show=fabric.is_global_zero,
        )
        self.report: Report | None = None
        self.stop = StopRequest()
        self._sums = torch.zeros(len(trainable.loss_names), device=fabric.device)
        self._first_step = 0
        self._started = time.monotonic()
        self._deadline = math.inf
        self._is_out_of_time = False

    def run(self) -> Result:
        """Train until the last step, early stopping, the time limit, or a signal."""
        self.line.write(self.trainable.describe())
        if self.job.config.run.dry_run:
            return self._dry_run()
        self._resume()
        with ExitStack() as stack:
            stack.enter_context(self.stop)
            if self.fabric.is_global_zero:
                resumed = self.state.step or None
                self.report = stack.enter_context(Report(self.folder, self.job.config, resumed))
            stack.enter_context(self.line)
            self._started = time.monotonic() - self.state.seconds
            if self.job.config.run.max_minutes is not None:
                self._deadline = time.monotonic() + 60 * self.job.config.run.max_minutes
            try:
                note = self._train()
            except Stopped:
                self._save()
                self.line.write(f"Stopped at step {self.state.step:,}. A checkpoint was written.")
                self.stop.raise_()
        return self._finish(note)

    # ------------------------------------------------------------------------ steps

    def _train(self) -> str:
        """Train, evaluate and save, and return a note on why training ended."""
        while True:
            try:
                note = self._steps()
                if self._is_out_of_time:
                    # The checkpoint does not contain the evaluation below, which an uninterrupted
                    # run does not have.
                    self._save()
                if self.state.evaluated != self.state.step:
                    self._evaluate()
                if not self._is_out_of_time:
                    self._save()
                return note
            except Diverged as error:
                self._roll_back(error)

    def _steps(self) -> str:
        """Run training steps until the end, and return a note on why training ended."""
        state, run = self.state, self.job.config.run
        # A signal can have interrupted the evaluation of this step.
        if state.step and self._evaluation_is_due() and state.evaluated != state.step:
            self._evaluate()
        if self._is_out_of_patience():
            return (
                f"nothing to do, because the run has stopped early; to train longer, set "
                f"--patience above {run.patience} or train again with another --out"
            )
        batches = prefetched(self.trainable.batches(state.step), PREFETCH_BATCHES)
        try:
            while state.step < self.trainable.n_steps:
                if state.step == self.trainable.compare_at and not state.before:
                    self._compare()
                result = self._step(next(batches))
                state.step += 1
                state.n_summed += 1
                self._sums += result.losses
                if state.step % run.log_every == 0:
                    self._log(result)
                self.line.update(
                    state.step, self.trainable.tokens_per_step, learning_rate=result.rate
                )
                self._print_time_estimate()
                if self._evaluation_is_due():
                    self._evaluate()
                    if self._is_out_of_patience():
                        evaluations = format_count(state.n_worse, "evaluation")
                        return f"stopped early after {evaluations} without improvement"
                if state.step % run.checkpoint_every == 0:
                    self._save()
                if self._stop_requested():
                    raise Stopped
                if state.step < self.trainable.n_steps and self._deadline_is_over():
                    self._is_out_of_time = True
                    assert run.max_minutes is not None
                    limit = format_count(run.max_minutes, "minute", "g")
                    return f"stopped at the time limit of {limit}"
        finally:
            batches.close()
        return "finished"

    def _evaluation_is_due(self) -> bool:
        return self.state.step % self.evaluate_every == 0

    def _is_out_of_patience(self) -> bool:
        patience = self.job.config.run.patience
        return patience is not None and self.state.n_worse >= patience

    def _step(self, batch: Any) -> StepResult:
        try:
            return self.trainable.step(batch, self.state.step, self.state.rate_factor)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(self.trainable.memory_advice()) from None

    def _log(self, result: StepResult) -> None:
        """Log the mean losses since the last log entry; raise an error if training diverged."""
        state = self.state
        losses = self._mean_losses()
        loss, norm = sum(losses) / len(losses), float(result.norm)
        # Losses above that of uniform guessing have not risen: training has just started.
        is_learning = state.lowest < self.trainable.chance_loss
        can_roll_back = self.job.config.run.max_rollbacks > 0
        state.check_loss(loss, norm, MAX_RISE if is_learning and can_roll_back else math.inf)
        state.lowest = min(state.lowest, loss)
        self.line.update(state.step, 0, loss=loss)
        if self.report is not None:
            values = {
                "epoch": state.step / self.trainable.steps_per_epoch,
                "loss": loss,
                **dict(zip(self.trainable.loss_names, losses, strict=True)),
                "learning_rate": result.rate,
                "gradient_norm": norm,
                "tokens_per_second": self.line.tokens_per_second,
            }
            self.report.step(state.step, values)
        self._sums.zero_()
        state.n_summed = 0

    def _mean_losses(self) -> list[float]:
        """Return the mean losses since the last log entry, averaged over all processes."""
        mean: Any = self._sums / max(1, self.state.n_summed)
        if self.fabric.world_size > 1:
            mean = self.fabric.all_reduce(mean, reduce_op="mean")
        return [float(value) for value in mean]

    def _print_time_estimate(self) -> None:
        """Print the estimated remaining time once enough steps have been timed."""
        done = self.state.step - self._first_step
        if done == WARM_UP:
            self.line.restart_clock()
        if done == WARM_UP + TIMED and self.line.seconds_left is not None:
            self.line.write(
                f"{self.line.tokens_per_second:,.0f} tokens/s: about "
                f"{duration(self.line.seconds_left)} left, without evaluations"
            )

    def _dry_run(self) -> Result:
        """Measure the speed of a few steps without writing any files."""
        trainable = self.trainable
        batches = prefetched(trainable.batches(0), PREFETCH_BATCHES)
        try:
            # Only a CPU can be too slow. With several processes, all must run the same steps.
            may_shorten = self.fabric.world_size == 1 and self.fabric.device.type == "cpu"
            seconds, is_measured = step_seconds(
                self._step, batches, trainable.shorten if may_shorten else None
            )
        finally:
            batches.close()
        speed = f"{trainable.tokens_per_step / seconds:,.0f} tokens/s"
        speed += "" if is_measured else " (estimated from parts of a step)"
        spent = duration(seconds * trainable.n_steps)
        note = f"dry run, nothing written; {speed}: the run would take about {spent}"
        return trainable.result(RunState(), note)

    def _stop_requested(self) -> bool:
        """Whether any process has received a signal to stop.

        With several processes, this is only synchronized between them in steps that are logged.
        """
        stop = self.stop
        if self.fabric.world_size == 1:
            return stop.number is not None
        if self.state.step % self.job.config.run.log_every:
            return False
        requested = self._is_true_anywhere(stop.number is not None)
        if requested and stop.number is None:
            stop.number = signal.SIGINT
        return requested

    def _deadline_is_over(self) -> bool:
        """Whether the time limit is reached; with several processes as in `_stop_requested`."""
        is_over = time.monotonic() >= self._deadline
        if self.fabric.world_size == 1 or self.job.config.run.max_minutes is None:
            return is_over
        if self.state.step % self.job.config.run.log_every:
            return False
        return self._is_true_anywhere(is_over)

    def _is_true_anywhere(self, value: bool) -> bool:
        """Whether the value is true in any process."""
        total: Any = self.fabric.all_reduce(
            torch.tensor(float(value), device=self.fabric.device), reduce_op="sum"
        )
        return bool(float(total))

    def _watch(self, items: Iterable[Any], n_items: int) -> Iterator[Any]:
        """Yield held-out batches, show progress, and raise `Stopped` after a signal.

        With several processes, signals are ignored here, because the other processes would wait
        forever for the one that stops.

        Args:
            items: Batches.
            n_items: Number of batches, which can be an estimate.
        """
        self.line.start_evaluation(n_items)
        for n_done, item in enumerate(items):
            if self.fabric.world_size == 1 and self.stop.number is not None:
                raise Stopped
            self.line.update_evaluation(n_done)
            yield item

    # ------------------------------------------------------------------------ evaluation

    def _evaluate(self) -> None:
        """Evaluate on the held-out data and save the model if it is the best so far."""
        state, trainable = self.state, self.trainable
        numbers = trainable.measure(state.step, self._watch)
        state.evaluated = state.step
        if numbers is None:
            return
        evaluation: Evaluation = trainable.evaluation(numbers)
        best = trainable.evaluation(state.best).rank if state.best else None
        is_better = best is None or evaluation.rank < best
        state.has_moved |= best is not None and evaluation.rank != best
        if is_better:
            state.best, state.n_worse = numbers, 0
            self._save_model(evaluation)
        else:
            state.n_worse += state.has_moved and state.step > trainable.warmup_steps
        if self.report is not None:
            self.report.evaluation(state.step, evaluation.values())
        self.line.write(
            f"step {state.step:,}, epoch {state.step / trainable.steps_per_epoch:.2f}: "
            f"{evaluation.line()}{'' if is_better else ' (not the best)'}"
        )
        self.line.restart_clock()

    def _compare(self) -> None:
        """Evaluate the model as a baseline for later evaluations."""
        self.state.best = []
        self._evaluate()
        self.state.before = self.state.best

    # ------------------------------------------------------------------------ checkpoints

    def _resume(self) -> None:
        """Load the last checkpoint, if there is one."""
        if self.fabric.is_global_zero:
            check_same_run(self.folder, self.job.config)
        content = self._newest_checkpoint()
        if content is not None:
            self._load(content)
            restore_threads(content["threads"])
            if content["threads"] != torch.get_num_threads() and self.fabric.device.type == "cpu":
                logger.warning(
                    "The run was started with %d threads and resumes with %d. Results can differ "
                    "by rounding errors.",
                    content["threads"],
                    torch.get_num_threads(),
                )
            self.line.write(f"Resuming from step {self.state.step:,}.")
        self._first_step = self.state.step
        is_over = self.state.step >= self.trainable.n_steps or self._is_out_of_patience()
        # Options that are not used must not be recorded as those of the run.
        if self.fabric.is_global_zero and not (content is not None and is_over):
            write_config(self.folder, self.job.config)

    def _newest_checkpoint(self) -> dict[str, Any] | None:
        """Return the content of the newest checkpoint; None if there is none."""
        if self.fabric.is_global_zero and self.fabric.world_size > 1:
            # Delete damaged checkpoints before the other processes look for the newest one.
            checkpoint.load_newest(self.folder / CHECKPOINTS)
        self.fabric.barrier()
        return checkpoint.load_newest(self.folder / CHECKPOINTS)

    def _load(self, content: dict[str, Any]) -> None:
        """Load the content of a checkpoint."""
        self.trainable.load_state_dict(content)
        key = RUN_STATE if RUN_STATE in content else EARLIER_RUN_STATE
        self.state = RunState(**content[key])
        self._sums = torch.tensor(self.state.sums, device=self.fabric.device)
        self.line.step = self.state.step

    def _roll_back(self, error: Diverged) -> None:
        """Return to the last checkpoint with a lower learning rate, or raise the given error."""
        diverged_step, n_rollbacks = self.state.step, self.state.n_rollbacks + 1
        content = None
        if n_rollbacks <= self.job.config.run.max_rollbacks:
            content = self._newest_checkpoint()
        if content is None:
            raise error
        self._load(content)
        self.state.n_rollbacks = n_rollbacks
        # Once the checkpoint contains the rollback, a resumed run does not diverge again.
        self._save()
        if self.report is not None:
            values = {
                "diverged_step": diverged_step,
                "rate_factor": self.state.rate_factor,
                "reason": str(error),
            }
            self.report.rollback(self.state.step, values)
        self.line.write(
            f"Training diverged before step {diverged_step:,}. Returning to step "
            f"{self.state.step:,} with {self.state.rate_factor:.3g} times the learning rate."
        )
        self.line.restart_clock()

    def _save(self) -> None:
        """Write a checkpoint; raise an error if training diverged since the last log entry."""
        state = self.state
        if state.n_summed:
            losses = self._mean_losses()
            state.check_loss(sum(losses) / len(losses))
        if not self.trainable.is_finite():
            state.check_loss(math.nan)
        state.sums = self._sums.tolist()
        state.seconds = time.monotonic() - self._started
        model_state = self.trainable.state_dict()
        if self.fabric.is_global_zero:
            content = {
                "version": __version__,
                **model_state,
                RUN_STATE: dataclasses.asdict(state),
                "threads": torch.get_num_threads(),
            }
            checkpoint.save(self.folder / CHECKPOINTS, state.step, content)
        self.fabric.barrier()

    def _save_model(self, evaluation: Evaluation | None) -> None:
        """Write the current model."""
        if self.fabric.is_global_zero:
            self.trainable.save_model(self.folder / MODEL, self.state.step, evaluation)

    def _finish(self, note: str) -> Result:
        """Save the model if there was no evaluation, draw the curves and return the result."""
        if not self.state.best:
            self._save_model(None)
        if self.fabric.is_global_zero:
            draw_curves(self.folder)
        self.fabric.barrier()
        return self.trainable.result(self.state, note)
