"""The one loop, for whatever is a `Work`: step, log, evaluate, save, stop.

It tells the truth while it runs: it counts its own tokens, measures on what was held out, and says
before it starts what it will take. Killed at any moment, it goes on from its last checkpoint as if
nothing had happened.
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
from elmo.train import checkpoint
from elmo.train.curves import draw_curves
from elmo.train.devices import make_fabric, reproducible
from elmo.train.prefetch import prefetched
from elmo.train.progress_line import ProgressLine, duration
from elmo.train.report import Report
from elmo.train.run_folder import CHECKPOINTS, MODEL, check_same_run, locked, write_config
from elmo.train.run_state import RunState
from elmo.train.signals import StopRequest
from elmo.train.trainable import Evaluation, Result, StepResult, TrainingJob

if TYPE_CHECKING:
    from lightning.fabric import Fabric

logger = logging.getLogger(__name__)

# Batches made ahead of the step that takes them.
PREFETCH_BATCHES = 4
# Steps timed before the length of the run is foretold, after a first few that are not.
WARM_UP, TIMED = 3, 20


def train(job: TrainingJob[Result]) -> Result:
    """Train a model, from the beginning or from its last checkpoint."""
    fabric = make_fabric(job.config.run)
    with ExitStack() as stack:
        stack.enter_context(reproducible(fabric.device, job.config.run))
        folder = Path(job.config.out)
        if fabric.is_global_zero and not job.config.run.dry_run:
            stack.enter_context(locked(folder))
        return Loop(job, fabric, folder).run()


class Stopped(Exception):
    """A signal asked the run to stop."""


class Loop(Generic[Result]):
    """One run in one of its processes."""

    def __init__(self, job: TrainingJob[Result], fabric: "Fabric", folder: Path) -> None:
        """Put the job on its device.

        Args:
            job: what to train.
            fabric: device and processes.
            folder: the training folder.
        """
        self.job, self.fabric, self.folder = job, fabric, folder
        self.work = work = job.make_trainable(fabric)
        self.standing = RunState(lowest=work.chance_loss)
        every = self.job.config.run.evaluate_every
        self.evaluate_every = every or max(1, round(work.steps_per_epoch))
        self.line = ProgressLine(
            n_steps=work.n_steps,
            steps_per_epoch=work.steps_per_epoch,
            show=fabric.is_global_zero,
        )
        self.report: Report | None = None
        self.stop = StopRequest()
        self._sums = torch.zeros(len(work.loss_names), device=fabric.device)
        self._first_step = 0
        self._started = time.monotonic()

    def run(self) -> Result:
        """Train to the end, or to a stop."""
        self.line.write(self.work.describe())
        if self.job.config.run.dry_run:
            return self._dry_run()
        self._resume()
        with ExitStack() as stack:
            stack.enter_context(self.stop)
            if self.fabric.is_global_zero:
                resumed = self.standing.step or None
                self.report = stack.enter_context(Report(self.folder, self.job.config, resumed))
            stack.enter_context(self.line)
            self._started = time.monotonic() - self.standing.seconds
            try:
                note = self._steps()
                if self.standing.evaluated != self.standing.step:
                    self._evaluate()
            except Stopped:
                self._save()
                self.line.write(f"stopped at step {self.standing.step:,}; a checkpoint is written")
                self.stop.raise_()
            self._save()
        return self._finish(note)

    # ------------------------------------------------------------------------ steps

    def _steps(self) -> str:
        """Take steps until there is a reason to stop, and give the reason."""
        standing, run = self.standing, self.job.config.run
        # A signal may have cut the evaluation of this step short.
        if standing.step and self._evaluation_is_due() and standing.evaluated != standing.step:
            self._evaluate()
        if self._is_out_of_patience():
            return "stopped early before, nothing to do"
        batches = prefetched(self.work.batches(standing.step), PREFETCH_BATCHES)
        try:
            while standing.step < self.work.n_steps:
                if standing.step == self.work.compare_at and not standing.before:
                    self._compare()
                result = self._step(next(batches))
                standing.step += 1
                standing.n_summed += 1
                self._sums += result.losses
                if standing.step % run.log_every == 0:
                    self._log(result)
                self.line.update(
                    standing.step, self.work.tokens_per_step, learning_rate=result.rate
                )
                self._print_time_estimate()
                if self._evaluation_is_due():
                    self._evaluate()
                    if self._is_out_of_patience():
                        return f"stopped early, {standing.n_worse} evaluations without a better one"
                if standing.step % run.checkpoint_every == 0:
                    self._save()
                if self._stop_requested():
                    raise Stopped
        finally:
            batches.close()
        return "finished"

    def _evaluation_is_due(self) -> bool:
        return self.standing.step % self.evaluate_every == 0

    def _is_out_of_patience(self) -> bool:
        patience = self.job.config.run.patience
        return patience is not None and self.standing.n_worse >= patience

    def _step(self, batch: Any) -> StepResult:
        try:
            return self.work.step(batch, self.standing.step)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(self.work.memory_advice()) from None

    def _log(self, result: StepResult) -> None:
        """Write a line of the log, and stop a run that has gone astray."""
        standing = self.standing
        losses = self._mean_losses()
        loss, norm = sum(losses) / len(losses), float(result.norm)
        standing.check_loss(loss, norm)
        standing.lowest = min(standing.lowest, loss)
        self.line.update(standing.step, 0, loss=loss)
        if self.report is not None:
            values = {
                "epoch": standing.step / self.work.steps_per_epoch,
                "loss": loss,
                **dict(zip(self.work.loss_names, losses, strict=True)),
                "learning_rate": result.rate,
                "gradient_norm": norm,
                "tokens_per_second": self.line.tokens_per_second,
            }
            self.report.step(standing.step, values)
        self._sums.zero_()
        standing.n_summed = 0

    def _mean_losses(self) -> list[float]:
        """Give the mean losses since the last line of the log, over all processes."""
        mean: Any = self._sums / max(1, self.standing.n_summed)
        if self.fabric.world_size > 1:
            mean = self.fabric.all_reduce(mean, reduce_op="mean")
        return [float(value) for value in mean]

    def _print_time_estimate(self) -> None:
        """Say how long it will take, once the speed is known."""
        done = self.standing.step - self._first_step
        if done == WARM_UP:
            self.line.restart_clock()
        if done == WARM_UP + TIMED and self.line.seconds_left is not None:
            self.line.write(
                f"{self.line.tokens_per_second:,.0f} tokens/s: about "
                f"{duration(self.line.seconds_left)} to go, evaluations not counted"
            )

    def _dry_run(self) -> Result:
        """Take a few steps for the clock alone; nothing is written."""
        standing, n_steps = self.standing, self.work.n_steps
        with self.line:
            for batch in prefetched(self.work.batches(0), PREFETCH_BATCHES):
                result = self._step(batch)
                standing.step += 1
                self.line.update(standing.step, self.work.tokens_per_step)
                if standing.step == WARM_UP:
                    float(result.norm)  # wait for the device
                    self.line.restart_clock()
                if standing.step >= WARM_UP + TIMED:
                    break
            float(result.norm)
            self.line.update(standing.step, 0)
        left = self.line.seconds_left or 0.0
        spent = left * n_steps / max(1, n_steps - standing.step)
        speed = f"{self.line.tokens_per_second:,.0f} tokens/s: the run would take about "
        note = f"dry run, nothing written; {speed}{duration(spent)}"
        return self.work.result(RunState(), note)

    def _stop_requested(self) -> bool:
        """Whether any process was told to stop; several agree on it, now and then."""
        stop = self.stop
        if self.fabric.world_size == 1:
            return stop.number is not None
        if self.standing.step % self.job.config.run.log_every:
            return False
        asked: Any = self.fabric.all_reduce(
            torch.tensor(float(stop.number or 0), device=self.fabric.device), reduce_op="sum"
        )
        if float(asked) and stop.number is None:
            stop.number = signal.SIGINT
        return bool(float(asked))

    def _stop_on_signal(self, items: Iterable[Any]) -> Iterator[Any]:
        """Give items until a signal comes; processes that wait for each other go on."""
        for item in items:
            if self.fabric.world_size == 1 and self.stop.number is not None:
                raise Stopped
            yield item

    # ------------------------------------------------------------------------ evaluation

    def _evaluate(self) -> None:
        """Measure on what was held out, and keep the model where it is the best so far."""
        standing, work = self.standing, self.work
        numbers = work.measure(standing.step, self._stop_on_signal)
        standing.evaluated = standing.step
        if numbers is None:
            return
        found: Evaluation = work.evaluation(numbers)
        best = work.evaluation(standing.best).rank if standing.best else None
        is_better = best is None or found.rank < best
        standing.has_moved |= best is not None and found.rank != best
        if is_better:
            standing.best, standing.n_worse = numbers, 0
            self._save_model(found)
        else:
            standing.n_worse += standing.has_moved
        if self.report is not None:
            self.report.evaluation(standing.step, found.values())
        self.line.write(
            f"step {standing.step:,}, epoch {standing.step / work.steps_per_epoch:.2f}: "
            f"{found.line()}{'' if is_better else ' (not the best)'}"
        )
        self.line.restart_clock()

    def _compare(self) -> None:
        """Measure the model that later ones are compared with; it is the best one so far."""
        self.standing.best = []
        self._evaluate()
        self.standing.before = self.standing.best

    # ------------------------------------------------------------------------ what is kept

    def _resume(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        if self.fabric.is_global_zero:
            check_same_run(self.folder, self.job.config)
            if self.fabric.world_size > 1:
                # Torn files are gone before the other processes look.
                checkpoint.load_newest(self.folder / CHECKPOINTS)
        self.fabric.barrier()
        found = checkpoint.load_newest(self.folder / CHECKPOINTS)
        if found is not None:
            self.work.load_state_dict(found)
            if found["threads"] != torch.get_num_threads() and self.fabric.device.type == "cpu":
                logger.warning(
                    "the run had %d threads, now there are %d: sums may round in another way",
                    found["threads"],
                    torch.get_num_threads(),
                )
            self.standing = RunState(**found["standing"])
            self._sums = torch.tensor(self.standing.sums, device=self.fabric.device)
            self.line.step = self.standing.step
            self.line.write(f"going on from step {self.standing.step:,}")
        self._first_step = self.standing.step
        if self.fabric.is_global_zero:
            write_config(self.folder, self.job.config)

    def _save(self) -> None:
        """Write a checkpoint, unless the run has gone astray since the last line of the log."""
        standing = self.standing
        if standing.n_summed:
            losses = self._mean_losses()
            standing.check_loss(sum(losses) / len(losses))
        if not self.work.is_finite():
            standing.check_loss(math.nan)
        standing.sums = self._sums.tolist()
        standing.seconds = time.monotonic() - self._started
        state = self.work.state_dict()
        if self.fabric.is_global_zero:
            content = {
                "version": __version__,
                **state,
                "standing": dataclasses.asdict(standing),
                "threads": torch.get_num_threads(),
            }
            checkpoint.save(self.folder / CHECKPOINTS, standing.step, content)
        self.fabric.barrier()

    def _save_model(self, found: Evaluation | None) -> None:
        """Write the model as it is now."""
        if self.fabric.is_global_zero:
            self.work.save_model(self.folder / MODEL, self.standing.step, found)

    def _finish(self, note: str) -> Result:
        """Leave a model folder and a picture behind."""
        if not self.standing.best:
            self._save_model(None)
        if self.fabric.is_global_zero:
            draw_curves(self.folder)
        self.fabric.barrier()
        return self.work.result(self.standing, note)
