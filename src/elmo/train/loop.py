"""The one loop, for pre-training and fine-tuning alike: step, log, evaluate, save, stop.

It tells the truth while it runs: it counts its own tokens, measures under the full softmax on text
that was held out, and says before it starts what it will take. Killed at any moment, it goes on
from its last checkpoint as if nothing had happened.
"""

import dataclasses
import logging
import math
import signal
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from elmo import __version__
from elmo.corpus.lanes import Position
from elmo.corpus.shards import Corpus
from elmo.corpus.streams import Stream, Window, once
from elmo.corpus.tables import Batch, WordTables
from elmo.errors import ConfigError, TrainingError
from elmo.evaluate.perplexity import Perplexity, measure, perplexity_of
from elmo.formats import native
from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import is_out_of_memory
from elmo.model.network import ELMoNetwork
from elmo.train import checkpoint
from elmo.train.curves import draw_curves
from elmo.train.devices import deterministic, make_fabric
from elmo.train.folder import CHECKPOINTS, MODEL, check_same_run, locked, write_config
from elmo.train.heads import Drawn
from elmo.train.learner import Learner, StepResult, TrainingConfig, lanes_of_process
from elmo.train.line import TrainingLine, duration
from elmo.train.plan import available_memory, fitting_batch, plan
from elmo.train.prefetch import prefetched
from elmo.train.report import Report
from elmo.train.result import TrainResult
from elmo.train.signals import StopRequest
from elmo.train.standing import Standing

if TYPE_CHECKING:
    from lightning.fabric import Fabric

logger = logging.getLogger(__name__)

# Windows made ahead of the step that takes them.
AHEAD = 4
# Steps timed before the length of the run is foretold, after a first few that are not.
WARM_UP, TIMED = 3, 20
# Rows side by side when the held-out text is read.
EVALUATION_LANES = 64


@dataclass(frozen=True)
class Job:
    """What is to be trained, ready but for its device.

    Attributes:
        config: of the run.
        corpus: text.
        network: with its first weights.
        tables: of the corpus for this network.
        model: what the network will be saved as, but for its weights.
        softmax_steps: steps in which the softmax learns alone.
        compare: whether to measure before the network changes.
        accumulators: sums of squares an earlier Adagrad left, by the names of the network.
    """

    config: TrainingConfig
    corpus: Corpus
    network: ELMoNetwork
    tables: WordTables
    model: Pretrained
    softmax_steps: int = 0
    compare: bool = False
    accumulators: Mapping[str, Tensor] | None = None


def train(job: Job) -> TrainResult:
    """Train a model, from the beginning or from its last checkpoint."""
    fabric = make_fabric(job.config.run)
    lanes_of_process(job.config, fabric.world_size)
    with ExitStack() as stack:
        stack.enter_context(deterministic(fabric.device))
        folder = Path(job.config.out)
        if fabric.is_global_zero and not job.config.run.dry_run:
            stack.enter_context(locked(folder))
        return Loop(job, fabric, folder).run()


class Stopped(Exception):
    """A signal asked the run to stop."""


class Loop:
    """One run in one of its processes."""

    def __init__(self, job: Job, fabric: "Fabric", folder: Path) -> None:
        """Put the job on its device.

        Args:
            job: what to train.
            fabric: device and processes.
            folder: the training folder.
        """
        self.job, self.config, self.fabric, self.folder = job, job.config, fabric, folder
        config, network = job.config, job.network
        assert network.softmax is not None
        self.plan = plan(
            network.config,
            n_bilm=sum(value.numel() for value in network.bilm.parameters()),
            n_softmax=sum(value.numel() for value in network.softmax.parameters()),
            n_pairs=job.corpus.splits["train"].n_pairs,
            stream=config.stream,
            loss=config.loss,
            optimizer=config.optimizer,
            run=config.run,
        )
        self.learner = Learner(
            fabric,
            network,
            config,
            job.tables,
            n_steps=self.plan.n_steps,
            softmax_steps=job.softmax_steps,
        )
        if job.accumulators is not None:
            self.learner.load_accumulators(job.accumulators)
        self.standing = Standing(lowest=self._blind_loss())
        first = fabric.global_rank * self.learner.n_lanes
        self.stream = Stream(
            job.corpus.splits["train"],
            config.stream,
            seed=config.run.seed,
            own=range(first, first + self.learner.n_lanes),
        )
        self.position: Position = self.stream.position()
        self.evaluate_every = config.run.evaluate_every or max(1, round(self.plan.steps_per_epoch))
        self.line = TrainingLine(
            n_steps=self.plan.n_steps,
            steps_per_epoch=self.plan.steps_per_epoch,
            show=fabric.is_global_zero,
        )
        self.report: Report | None = None
        self.stop = StopRequest()
        self._sums = torch.zeros(2, device=fabric.device)
        self._first_step = 0
        self._started = time.monotonic()

    def _blind_loss(self) -> float:
        """Give the loss of a model that knows nothing."""
        loss = self.config.loss
        n_words = self.job.network.config.n_softmax_words
        return math.log(loss.n_samples + 1 if loss.softmax == "sampled" else n_words)

    def run(self) -> TrainResult:
        """Train to the end, or to a stop."""
        self.line.write(str(self.plan))
        if self.config.run.dry_run:
            return self._dry_run()
        self._resume()
        with ExitStack() as stack:
            stack.enter_context(self.stop)
            if self.fabric.is_global_zero:
                resumed = self.standing.step or None
                self.report = stack.enter_context(Report(self.folder, self.config, resumed))
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
        standing, run = self.standing, self.config.run
        if self._has_given_up():
            return "stopped early before, nothing to do"
        batches = prefetched(self._batches(), AHEAD)
        try:
            while standing.step < self.plan.n_steps:
                if standing.step == self.job.softmax_steps and not standing.before:
                    self._compare()
                parts, drawn, position = next(batches)
                result = self._step(parts, drawn)
                self.position = position
                standing.step += 1
                standing.n_summed += 1
                self._sums += result.losses
                if standing.step % run.log_every == 0:
                    self._log(result)
                self.line.update(standing.step, self.plan.n_together, learning_rate=result.rate)
                self._foretell()
                if standing.step % self.evaluate_every == 0:
                    self._evaluate()
                    if self._has_given_up():
                        return f"stopped early, {standing.n_worse} evaluations without a better one"
                if standing.step % run.checkpoint_every == 0:
                    self._save()
                if self._asked_to_stop():
                    raise Stopped
        finally:
            batches.close()
        return "finished"

    def _has_given_up(self) -> bool:
        patience = self.config.run.patience
        return patience is not None and self.standing.n_worse >= patience

    def _batches(self) -> Iterator[tuple[list[Batch], Drawn | None, Position]]:
        """Give windows from the next step on, looked up."""
        for number, window in enumerate(self.stream, start=self.standing.step):
            parts = self.learner.batches(window)
            yield parts, self.learner.draw(parts, number), window.position

    def _step(self, parts: list[Batch], drawn: Drawn | None) -> StepResult:
        try:
            return self.learner.step(parts, self.standing.step, drawn)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(self._memory_advice()) from None

    def _memory_advice(self) -> str:
        batch, memory = self.config.stream.batch_size, self.plan.memory
        available = available_memory(self.fabric.device)
        # It did not fit, whatever the estimate says: half of it is the most to hope for.
        fits = batch // 2
        if available is not None:
            fits = min(fits, fitting_batch(batch, memory.total, memory.fixed, available))
        advice = f"--batch-size {fits} would fit" if fits else "a smaller model is needed"
        return (
            f"out of memory with batch_size {batch} and unroll {self.config.stream.unroll}: "
            f"{advice}, or keep the batch and compute it in parts with --accumulate "
            f"{2 * self.config.run.accumulate}"
        )

    def _log(self, result: StepResult) -> None:
        """Write a line of the log, and stop a run that has gone astray."""
        standing = self.standing
        forward, backward = self._mean_losses()
        loss, norm = 0.5 * (forward + backward), float(result.norm)
        standing.check_loss(loss, norm)
        standing.lowest = min(standing.lowest, loss)
        self.line.update(standing.step, 0, loss=loss)
        if self.report is not None:
            values = {
                "epoch": standing.step / self.plan.steps_per_epoch,
                "loss": loss,
                "forward_loss": forward,
                "backward_loss": backward,
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

    def _foretell(self) -> None:
        """Say how long it will take, once the speed is known."""
        done = self.standing.step - self._first_step
        if done == WARM_UP:
            self.line.restart_clock()
        if done == WARM_UP + TIMED and self.line.seconds_left is not None:
            self.line.write(
                f"{self.line.tokens_per_second:,.0f} tokens/s: about "
                f"{duration(self.line.seconds_left)} to go, evaluations not counted"
            )

    def _dry_run(self) -> TrainResult:
        """Take a few steps for the clock alone; nothing is written."""
        with self.line:
            for parts, drawn, _ in prefetched(self._batches(), AHEAD):
                result = self._step(parts, drawn)
                self.standing.step += 1
                self.line.update(self.standing.step, self.plan.n_together)
                if self.standing.step == WARM_UP:
                    float(result.norm)  # wait for the device
                    self.line.restart_clock()
                if self.standing.step >= WARM_UP + TIMED:
                    break
            float(result.norm)
            self.line.update(self.standing.step, 0)
        left = self.line.seconds_left or 0.0
        spent = left * self.plan.n_steps / max(1, self.plan.n_steps - self.standing.step)
        speed = f"{self.line.tokens_per_second:,.0f} tokens/s: the run would take about "
        note = f"dry run, nothing written; {speed}{duration(spent)}"
        is_first = self.fabric.is_global_zero
        return TrainResult(self.config.out, self.plan, 0, 0.0, None, note, is_first=is_first)

    def _asked_to_stop(self) -> bool:
        """Whether any process was told to stop; several agree on it, now and then."""
        stop = self.stop
        if self.fabric.world_size == 1:
            return stop.number is not None
        if self.standing.step % self.config.run.log_every:
            return False
        asked: Any = self.fabric.all_reduce(
            torch.tensor(float(stop.number or 0), device=self.fabric.device), reduce_op="sum"
        )
        if float(asked) and stop.number is None:
            stop.number = signal.SIGINT
        return bool(float(asked))

    def _watched(self, windows: Iterator[Window]) -> Iterator[Window]:
        """Give windows until a signal comes; processes that wait for each other go on."""
        for window in windows:
            if self.fabric.world_size == 1 and self.stop.number is not None:
                raise Stopped
            yield window

    # ------------------------------------------------------------------------ evaluation

    def _evaluate(self) -> None:
        """Measure on the held-out text, and keep the model where it is the best so far."""
        standing = self.standing
        if "valid" not in self.job.corpus.splits:
            standing.evaluated = standing.step
            return
        sums = self.measure()
        standing.evaluated = standing.step
        found = perplexity_of(sums)
        if standing.step > self.job.softmax_steps:
            standing.check_held_out(found.loss, self.job.network.config.n_softmax_words)
        best = standing.best_perplexity
        is_better = best is None or found.loss < best.loss
        standing.n_worse = 0 if is_better else standing.n_worse + 1
        if is_better:
            standing.best = sums.tolist()
            self._save_model(found)
        if self.report is not None:
            self.report.evaluation(standing.step, found.values())
        self.line.write(
            f"step {standing.step:,}, epoch {standing.step / self.plan.steps_per_epoch:.2f}: "
            f"held-out perplexity forward {found.forward:,.2f}, backward {found.backward:,.2f}; "
            f"{found.values()['bits_per_character']:.4f} bits per character, "
            f"{found.unknown_rate:.2%} unknown{'' if is_better else ' (not the best)'}"
        )
        self.line.restart_clock()

    def _compare(self) -> None:
        """Measure the model that fine-tuning starts from; it is the best one so far."""
        if self.job.compare and "valid" in self.job.corpus.splits:
            self.standing.best = []
            self._evaluate()
            self.standing.before = self.standing.best

    def measure(self) -> Tensor:
        """Add up the losses on the held-out text, over all processes."""
        fabric, stream = self.fabric, self.config.stream
        each = max(1, min(stream.batch_size, EVALUATION_LANES) // fabric.world_size)
        windows = once(
            self.job.corpus.splits["valid"],
            lanes=each * fabric.world_size,
            steps=stream.unroll,
            reset=stream.reset > 0,
            order="text" if stream.order == "text" else "queue",
            own=range(fabric.global_rank * each, (fabric.global_rank + 1) * each),
        )
        softmax = self.job.network.softmax
        assert softmax is not None
        with fabric.autocast():
            sums: Any = measure(
                self.learner.model,
                softmax,
                self.job.tables,
                self._watched(windows),
                carry=stream.reset == 0,
            )
        if fabric.world_size > 1:
            sums = fabric.all_reduce(sums.to(fabric.device), reduce_op="sum")
        return torch.as_tensor(sums).cpu()

    # ------------------------------------------------------------------------ what is kept

    def _resume(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        if self.fabric.is_global_zero:
            check_same_run(self.folder, self.config)
            if self.fabric.world_size > 1:
                # Torn files are gone before the other processes look.
                checkpoint.newest(self.folder / CHECKPOINTS)
        self.fabric.barrier()
        found = checkpoint.newest(self.folder / CHECKPOINTS)
        if found is not None:
            if found["corpus"] != self._corpus_mark():
                raise ConfigError(
                    f"{self.folder} holds a run on another corpus ({found['corpus']}, now "
                    f"{self._corpus_mark()}): use that one, or another --out"
                )
            if found["threads"] != torch.get_num_threads() and self.fabric.device.type == "cpu":
                logger.warning(
                    "the run had %d threads, now there are %d: sums may round in another way",
                    found["threads"],
                    torch.get_num_threads(),
                )
            self.learner.load_state_dict(found["learner"])
            self.standing = Standing(**found["standing"])
            self._sums = torch.tensor(self.standing.sums, device=self.fabric.device)
            self.position = found["position"]
            self.stream.restore(self.position)
            self.line.step = self.standing.step
            self.line.write(f"going on from step {self.standing.step:,}")
        self._first_step = self.standing.step
        if self.fabric.is_global_zero:
            write_config(self.folder, self.config)

    def _corpus_mark(self) -> list[int]:
        train = self.job.corpus.splits["train"]
        counts = zlib.crc32(np.ascontiguousarray(self.job.corpus.counts).tobytes())
        return [train.n_words, train.n_sentences, len(self.job.corpus.words), counts]

    def _save(self) -> None:
        """Write a checkpoint, unless the run has gone astray since the last line of the log."""
        standing = self.standing
        if standing.n_summed:
            standing.check_loss(0.5 * sum(self._mean_losses()))
        if not all(torch.isfinite(value).all() for value in self.job.network.parameters()):
            standing.check_loss(math.nan)
        standing.sums = self._sums.tolist()
        standing.seconds = time.monotonic() - self._started
        learner = self.learner.state_dict()
        if self.fabric.is_global_zero:
            content = {
                "version": __version__,
                "learner": learner,
                "standing": dataclasses.asdict(standing),
                "position": self.position,
                "corpus": self._corpus_mark(),
                "threads": torch.get_num_threads(),
            }
            checkpoint.save(self.folder / CHECKPOINTS, standing.step, content)
        self.fabric.barrier()

    def _save_model(self, found: Perplexity | None) -> None:
        """Write the model as it is now."""
        if not self.fabric.is_global_zero:
            return
        train = self.job.corpus.splits["train"]
        facts: dict[str, Any] = dict(self.job.model.training or {})
        facts |= {
            "program": f"elmo-torch {__version__}",
            "text": f"{train.n_words:,} words in {train.n_sentences:,} sentences",
            "steps": f"{self.standing.step:,} of {self.plan.n_together:,} tokens, "
            f"{self.standing.step / self.plan.steps_per_epoch:.2f} epochs",
        }
        if found is not None:
            facts |= {
                "held-out perplexity": f"forward {found.forward:.2f}, backward "
                f"{found.backward:.2f} (full softmax, "
                f"{'state reset' if self.config.stream.reset else 'state carried'})",
                "held-out bits per character": f"{found.values()['bits_per_character']:.4f}",
                "held-out words out of vocabulary": f"{found.unknown_rate:.2%}",
            }
        weights = {
            name: value.detach().cpu() for name, value in self.job.network.state_dict().items()
        }
        model = dataclasses.replace(self.job.model, weights=weights, training=facts)
        native.write(model, self.folder / MODEL)

    def _finish(self, note: str) -> TrainResult:
        """Leave a model folder and a picture behind."""
        if not self.standing.best:
            self._save_model(None)
        if self.fabric.is_global_zero:
            draw_curves(self.folder)
        self.fabric.barrier()
        return TrainResult(
            self.config.out,
            self.plan,
            self.standing.step,
            self.standing.seconds,
            self.standing.best_perplexity,
            note,
            self.standing.first_perplexity,
            is_first=self.fabric.is_global_zero,
        )
