"""A language model as the loop trains it: its text, its two directions, its perplexity.

Measured is the perplexity under the full softmax on text that was held out, whatever softmax the
steps are trained with.
"""

import dataclasses
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from elmo import __version__
from elmo.corpus.bptt_segments import SegmentLoader, read_once
from elmo.corpus.bptt_streams import Position
from elmo.corpus.shards import Corpus
from elmo.corpus.token_tables import SegmentBatch, TokenTables
from elmo.errors import ConfigError, TrainingError
from elmo.evaluate.perplexity import Perplexity, measure, perplexity_of
from elmo.formats import model_folder
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import (
    HELDOUT_BITS_PER_CHARACTER,
    HELDOUT_OOV_RATE,
    HELDOUT_PERPLEXITY,
    PROGRAM,
    RESET_SHARE,
    STEPS,
    TEXT,
)
from elmo.model.network import ELMoNetwork
from elmo.train.learner import Learner, TrainingConfig, streams_per_process
from elmo.train.run_plan import available_memory, fitting_batch, plan
from elmo.train.run_state import DIVERGENCE_ADVICE, DIVERGENCE_MARGIN, RunState
from elmo.train.softmax_heads import DrawnRows
from elmo.train.train_result import TrainResult
from elmo.train.trainable import StepResult, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Rows side by side when the held-out text is read.
EVALUATION_STREAMS = 64


@dataclass(frozen=True)
class LMTrainingJob:
    """A language model that is to be trained, ready but for its device.

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
    tables: TokenTables
    model: Pretrained
    softmax_steps: int = 0
    compare: bool = False
    accumulators: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        """Refuse a batch that the processes cannot share, before any is started."""
        streams_per_process(self.config, self.config.run.devices * self.config.run.num_nodes)

    def make_trainable(self, fabric: "Fabric") -> "LMTrainable":
        """Put it on its device."""
        return LMTrainable(self, fabric)


@dataclass(frozen=True)
class LMBatch:
    """The window of a step, looked up.

    Attributes:
        parts: of the window, computed one after another.
        drawn: what the step will touch of the softmax, where that is known ahead.
        position: in the text, after the window.
    """

    parts: list[SegmentBatch]
    drawn: DrawnRows | None
    position: Position


class LMTrainable:
    """A language model in training, in one of the processes of a run; a `Work`."""

    loss_names: tuple[str, ...] = ("forward_loss", "backward_loss")

    def __init__(self, job: LMTrainingJob, fabric: "Fabric") -> None:
        """Move the network to its device.

        Args:
            job: what to train.
            fabric: device and processes.
        """
        self.job, self.config, self.fabric = job, job.config, fabric
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
        self.n_steps = self.plan.n_steps
        self.steps_per_epoch = self.plan.steps_per_epoch
        self.tokens_per_step = self.plan.tokens_per_step
        self.learner = Learner(
            fabric,
            network,
            config,
            job.tables,
            n_steps=self.n_steps,
            softmax_steps=job.softmax_steps,
        )
        if job.accumulators is not None:
            self.learner.load_accumulators(job.accumulators)
        is_sampled = config.loss.softmax == "sampled"
        n_words = network.config.n_softmax_words
        self.chance_loss = math.log(config.loss.n_samples + 1 if is_sampled else n_words)
        can_compare = job.compare and "valid" in job.corpus.splits
        self.compare_at: int | None = job.softmax_steps if can_compare else None
        first = fabric.global_rank * self.learner.n_streams
        self.stream = SegmentLoader(
            job.corpus.splits["train"],
            config.stream,
            seed=config.run.seed,
            own=range(first, first + self.learner.n_streams),
        )
        # That of the step done last: the stream itself is ahead.
        self.position: Position = self.stream.position()

    def describe(self) -> str:
        """Give the plan."""
        return str(self.plan)

    # ------------------------------------------------------------------------ steps

    def batches(self, first_step: int) -> Iterator[LMBatch]:
        """Give windows from where the stream stands, looked up."""
        for number, window in enumerate(self.stream, start=first_step):
            parts = self.learner.batches(window)
            yield LMBatch(parts, self.learner.draw(parts, number), window.position)

    def step(self, batch: LMBatch, number: int) -> StepResult:
        """Learn from a window."""
        result = self.learner.step(batch.parts, number, batch.drawn)
        self.position = batch.position
        return result

    def memory_advice(self) -> str:
        """Say which batch would fit."""
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

    # ------------------------------------------------------------------------ evaluation

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Add up the losses on the held-out text, over all processes."""
        fabric, stream = self.fabric, self.config.stream
        if "valid" not in self.job.corpus.splits:
            return None
        each = max(1, min(stream.batch_size, EVALUATION_STREAMS) // fabric.world_size)
        windows = read_once(
            self.job.corpus.splits["valid"],
            lanes=each * fabric.world_size,
            steps=stream.unroll,
            reset=bool(stream.reset),
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
                watch(windows),
                carry=not stream.reset,
            )
        if fabric.world_size > 1:
            sums = fabric.all_reduce(sums.to(fabric.device), reduce_op="sum")
        numbers: list[float] = torch.as_tensor(sums).tolist()
        # A softmax that still learns alone may be anywhere.
        if step > self.job.softmax_steps:
            self._check(self.evaluation(numbers).loss, step)
        return numbers

    def evaluation(self, numbers: list[float]) -> Perplexity:
        """Give the perplexity that sums amount to."""
        return perplexity_of(torch.tensor(numbers, dtype=torch.float64))

    def _check(self, loss: float, step: int) -> None:
        """Stop a run whose held-out loss is no number, or twice that of a blind guess."""
        guess = math.log(self.job.network.config.n_softmax_words)
        if not loss <= 2 * guess + DIVERGENCE_MARGIN:
            raise TrainingError(
                f"training diverged before step {step:,}: the held-out loss is {loss:.4g}, "
                f"that of a blind guess {guess:.4g}; {DIVERGENCE_ADVICE}"
            )

    # ------------------------------------------------------------------------ what is kept

    def is_finite(self) -> bool:
        """Whether all weights are numbers."""
        return all(bool(torch.isfinite(value).all()) for value in self.job.network.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Give the learner, the place in the text and what the text is known by."""
        return {
            "learner": self.learner.state_dict(),
            "position": self.position,
            "corpus": self._corpus_fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave, in any number of processes; refuse another corpus."""
        if state["corpus"] != self._corpus_fingerprint():
            raise ConfigError(
                f"{Path(self.config.out)} holds a run on another corpus ({state['corpus']}, now "
                f"{self._corpus_fingerprint()}): use that one, or another --out"
            )
        self.learner.load_state_dict(state["learner"])
        self.position = state["position"]
        self.stream.restore(self.position)

    def _corpus_fingerprint(self) -> list[int]:
        train = self.job.corpus.splits["train"]
        counts = zlib.crc32(np.ascontiguousarray(self.job.corpus.counts).tobytes())
        return [train.n_words, train.n_sentences, len(self.job.corpus.words), counts]

    def save_model(self, folder: Path, step: int, found: Perplexity | None) -> None:
        """Write the model as it is now, with what is known of its training."""
        train = self.job.corpus.splits["train"]
        facts: dict[str, Any] = dict(self.job.model.training or {})
        facts |= {
            PROGRAM: f"elmo-torch {__version__}",
            TEXT: f"{train.n_words:,} words in {train.n_sentences:,} sentences",
            STEPS: f"{step:,} of {self.tokens_per_step:,} tokens, "
            f"{step / self.steps_per_epoch:.2f} epochs",
            RESET_SHARE: self.config.stream.reset or 0.0,
        }
        if found is not None:
            facts |= {
                HELDOUT_PERPLEXITY: f"forward {found.forward:.2f}, backward "
                f"{found.backward:.2f} (full softmax, "
                f"{'state reset' if self.config.stream.reset else 'state carried'})",
                HELDOUT_BITS_PER_CHARACTER: f"{found.values()['bits_per_character']:.4f}",
                HELDOUT_OOV_RATE: f"{found.unknown_rate:.2%}",
            }
        weights = {
            name: value.detach().cpu() for name, value in self.job.network.state_dict().items()
        }
        model_folder.write(
            dataclasses.replace(self.job.model, weights=weights, training=facts), folder
        )

    def result(self, standing: RunState, note: str) -> TrainResult:
        """Give the best perplexity, and the one before fine-tuning."""
        return TrainResult(
            self.config.out,
            self.plan,
            standing.step,
            standing.seconds,
            self.evaluation(standing.best) if standing.best else None,
            note,
            self.evaluation(standing.before) if standing.before else None,
            is_first=self.fabric.is_global_zero,
        )
