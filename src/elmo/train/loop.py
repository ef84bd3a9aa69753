"""The training loop: steps, logging, evaluation, checkpoints, rollbacks and early stopping.

The loop can train any `Trainable`. It prints the run plan before the first step. A run that was
killed or reached its time limit can be resumed from its last checkpoint, with the same results as
an uninterrupted run.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Generic

import torch

from elmo.errors import TrainingError
from elmo.kernels.device import is_out_of_memory
from elmo.progress import format_count
from elmo.train.devices import make_fabric, reproducible
from elmo.train.dry_run import dry_run
from elmo.train.prefetch import prefetched
from elmo.train.run_folder import RunFolder
from elmo.train.run_monitor import RunMonitor
from elmo.train.run_state import DIVERGENCE_ADVICE, MAX_RISE, Diverged, RunState
from elmo.train.stop_request import StopRequest
from elmo.train.trainable import Batch, EvaluationT, Item, Result, StepResult, TrainingJob

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def train(job: TrainingJob[Batch, EvaluationT, Result]) -> Result:
    """Train a model from the beginning, or resume from the last checkpoint in its folder."""
    fabric = make_fabric(job.config.run)
    folder = RunFolder(job.config, fabric)
    with reproducible(fabric.device, job.config.run), folder.locked():
        return Loop(job, fabric, folder).run()


class Stopped(Exception):
    """Raised inside the loop after a signal has requested a stop."""


class Loop(Generic[Batch, EvaluationT, Result]):
    """The training loop in one process of a run."""

    def __init__(
        self, job: TrainingJob[Batch, EvaluationT, Result], fabric: "Fabric", folder: RunFolder
    ) -> None:
        self.options, self.fabric, self.folder = job.config.run, fabric, folder
        self.trainable = trainable = job.make_trainable(fabric)
        self.state = RunState(lowest=trainable.chance_loss)
        every = self.options.evaluate_every
        self.evaluate_every = every or max(1, round(trainable.steps_per_epoch))
        self.monitor = RunMonitor(job.config, trainable, is_first=fabric.is_global_zero)
        self.line = self.monitor.line
        self.stop = StopRequest(fabric, self.options)
        self._sums = torch.zeros(len(trainable.loss_names), device=fabric.device)
        self._started = time.monotonic()
        self._is_out_of_time = False

    def run(self) -> Result:
        """Train until the last step, early stopping, the time limit, or a signal."""
        self.line.write(self.trainable.describe())
        if self.options.dry_run:
            note = dry_run(self.trainable, self._step, self.fabric)
            return self.trainable.result(RunState(), note)
        self._resume()
        with self.stop.recorded_signals(), self.monitor.opened(self.state.step or None):
            self._started = time.monotonic() - self.state.seconds
            self.stop.start_time_limit()
            try:
                note = self._train()
            except Stopped:
                self._save()
                self.line.write(f"Stopped at step {self.state.step:,}. A checkpoint was written.")
                self.stop.raise_()
        return self._finish(note)

    def _resume(self) -> None:
        """Continue from the last checkpoint, if there is one, and record the options of the run."""
        state = self.folder.resume(self.trainable)
        if state is not None:
            self._continue_from(state)
            if state.step >= self.trainable.n_steps or self._is_out_of_patience():
                return  # options that are not used must not be recorded as those of the run
            self.line.write(f"Resuming from step {state.step:,}.")
        self.folder.save_config()

    def _continue_from(self, state: RunState) -> None:
        self.state = state
        self._sums = torch.tensor(state.sums, device=self.fabric.device)
        self.line.step = state.step

    # ------------------------------------------------------------------------ steps

    def _train(self) -> str:
        """Train, evaluate and save, and return a note on why training ended."""
        while True:
            try:
                note = self._steps()
                if self._is_out_of_time:
                    # The checkpoint does not contain the evaluation below, which an uninterrupted
                    # run does not have; a resumed run discards its model.
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
        state, trainable, options = self.state, self.trainable, self.options
        # A signal can have interrupted the evaluation of this step.
        if state.step and self._evaluation_is_due() and state.evaluated != state.step:
            self._evaluate()
        if self._is_out_of_patience():
            return (
                f"nothing to do, because the run has stopped early; to train longer, set "
                f"--patience above {options.patience} or train again with another --out"
            )
        if state.step >= trainable.n_steps:
            return "nothing to do, because the run is complete"
        with closing(prefetched(trainable.batches(state.step))) as batches:
            while state.step < trainable.n_steps:
                if state.step == trainable.compare_at and not state.before:
                    self._compare()
                result = self._step(next(batches))
                state.step += 1
                state.n_summed += 1
                self._sums += result.losses
                self.monitor.step(state.step, result.rate)
                if state.step % options.log_every == 0:
                    self._log(result)
                self.monitor.message(state.step, is_evaluated=False)
                if self._evaluation_is_due():
                    self._evaluate()
                    if self._is_out_of_patience():
                        evaluations = format_count(state.n_worse, "evaluation")
                        return f"stopped early after {evaluations} without improvement"
                if state.step % options.checkpoint_every == 0:
                    self._save()
                if self.stop.is_signaled(state.step):
                    raise Stopped
                if state.step < trainable.n_steps and self.stop.is_out_of_time(state.step):
                    self._is_out_of_time = True
                    assert options.max_minutes is not None
                    limit = format_count(options.max_minutes, "minute", "g")
                    return f"stopped at the time limit of {limit}"
        return "finished"

    def _evaluation_is_due(self) -> bool:
        return self.state.step % self.evaluate_every == 0

    def _is_out_of_patience(self) -> bool:
        patience = self.options.patience
        return patience is not None and self.state.n_worse >= patience

    def _step(self, batch: Batch) -> StepResult:
        try:
            return self.trainable.step(batch, self.state.step, self.state.rate_factor)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(self.trainable.memory_advice()) from None

    def _log(self, result: StepResult) -> None:
        """Log the mean losses since the last log entry; raise an error if training diverged."""
        state, losses = self.state, self._mean_losses()
        loss = sum(losses) / len(losses)
        # Losses above that of uniform guessing have not risen: training has just started.
        is_learning = state.lowest < self.trainable.chance_loss
        can_roll_back = self.options.max_rollbacks > 0
        max_rise = MAX_RISE if is_learning and can_roll_back else math.inf
        state.check_loss(loss, float(result.norm), max_rise)
        state.lowest = min(state.lowest, loss)
        self.monitor.losses(state.step, losses, result)
        self._sums.zero_()
        state.n_summed = 0

    def _mean_losses(self) -> list[float]:
        """Return the mean losses since the last log entry, averaged over all processes."""
        mean: Any = self._sums / max(1, self.state.n_summed)
        if self.fabric.world_size > 1:
            mean = self.fabric.all_reduce(mean, reduce_op="mean")
        return [float(value) for value in mean]

    # ------------------------------------------------------------------------ evaluation

    def _evaluate(self) -> None:
        """Evaluate on the held-out data, save the model if it is the best, and print a message."""
        self._measure()
        self.monitor.message(self.state.step, is_evaluated=True)

    def _measure(self) -> None:
        state, trainable = self.state, self.trainable
        numbers = trainable.measure(state.step, self._watch)
        state.evaluated = state.step
        if numbers is None:
            return
        evaluation = trainable.evaluation(numbers)
        best = trainable.evaluation(state.best).rank if state.best else None
        is_nan = math.isnan(evaluation.rank)
        # NaN is not the best even if it is the first: training has diverged.
        is_better = not is_nan and (best is None or evaluation.rank < best)
        state.has_nan |= is_nan
        state.has_moved |= best is not None and evaluation.rank != best
        if is_better:
            if self._is_out_of_time and state.best:
                self.folder.set_model_aside()
            state.best, state.n_worse = numbers, 0
            self.folder.save_model(trainable, state.step, evaluation)
        else:
            state.n_worse += state.has_moved and state.step > trainable.warmup_steps
        self.monitor.evaluation(state.step, evaluation, is_best=is_better)

    def _watch(self, items: Iterable[Item], n_items: int) -> Iterator[Item]:
        """Yield held-out batches, show progress, and raise `Stopped` after a signal.

        With several processes, signals are ignored here, because the other processes would wait
        forever for the one that stops.
        """
        self.line.start_evaluation(n_items)
        for n_done, item in enumerate(items):
            if self.fabric.world_size == 1 and self.stop.number is not None:
                raise Stopped
            self.line.update_evaluation(n_done)
            yield item

    def _compare(self) -> None:
        """Evaluate the model as a baseline for later evaluations."""
        self.state.best = []
        self._evaluate()
        self.state.before = self.state.best

    # ------------------------------------------------------------------------ checkpoints

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
        self.folder.save_checkpoint(state, self.trainable.state_dict())

    def _roll_back(self, error: Diverged) -> None:
        """Return to the last checkpoint with a lower learning rate, or raise the given error."""
        diverged_step, n_rollbacks = self.state.step, self.state.n_rollbacks + 1
        state = None
        if n_rollbacks <= self.options.max_rollbacks:
            state = self.folder.roll_back(self.trainable)
        if state is None:
            raise error
        self._continue_from(state)
        state.n_rollbacks = n_rollbacks
        # Once the checkpoint contains the rollback, a resumed run does not diverge again.
        self._save()
        self.monitor.rollback(diverged_step, state, str(error))

    def _finish(self, note: str) -> Result:
        """Save the model if there was no evaluation, draw the curves and return the result."""
        if not self.state.best:
            if self.state.has_nan:
                raise TrainingError(f"All evaluations were NaN. {DIVERGENCE_ADVICE}")
            self.folder.save_model(self.trainable, self.state.step, None)
        self.monitor.draw_curves()
        self.fabric.barrier()
        return self.trainable.result(self.state, note)
