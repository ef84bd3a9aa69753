"""Implementation of `Trainable` for bidirectional language models.

Evaluations report the held-out perplexity computed with the full softmax, even if the model is
trained with a sampled softmax.
"""

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from elmo import __version__
from elmo.corpus.bptt_segments import SegmentLoader, TextPosition, read_once
from elmo.corpus.character_counts import CharacterRatio, character_ratio
from elmo.corpus.shards import Corpus
from elmo.corpus.token_tables import SegmentBatch, TokenTables
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import Perplexity, measure, perplexity_of
from elmo.formats import model_folder
from elmo.formats.pretrained import Pretrained, count_parameters
from elmo.formats.training_record import (
    HELDOUT_BITS_PER_CHARACTER,
    HELDOUT_CHARACTERS,
    HELDOUT_OOV_RATE,
    HELDOUT_PERPLEXITY,
    PROGRAM,
    RESET_SHARE,
    SENTENCES,
    STEPS,
    TEXT,
)
from elmo.model.network import ELMoNetwork
from elmo.progress import format_count
from elmo.train.checkpoint import entry
from elmo.train.learner import Learner, TrainingConfig, streams_per_process
from elmo.train.run_plan import available_memory, fitting_batch, length_notes, plan
from elmo.train.run_state import DIVERGENCE_ADVICE, DIVERGENCE_MARGIN, Diverged, RunState
from elmo.train.softmax_heads import SoftmaxRows
from elmo.train.train_result import TrainResult
from elmo.train.trainable import StepResult, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Largest batch size of evaluations on the held-out text. If the state is carried over, the result
# depends on it.
CARRY_STREAMS, RESET_STREAMS = 64, 512


@dataclass(frozen=True)
class LMTrainingJob:
    """A language model to be trained, before it is moved to its device.

    The weights of `model`, which is saved, are replaced by those of the trained network. In the
    first `softmax_steps`, only the softmax is trained. With `compare`, the model is evaluated
    before training of the biLM starts. `accumulators` are those of Adagrad in an earlier run, by
    parameter name in the network. `make_learner` creates the learner, which can be a subclass with
    another loss.
    """

    config: TrainingConfig
    corpus: Corpus
    network: ELMoNetwork
    tables: TokenTables
    model: Pretrained
    softmax_steps: int = 0
    compare: bool = False
    accumulators: Mapping[str, Tensor] | None = None
    make_learner: Callable[..., Learner] = Learner

    def __post_init__(self) -> None:
        """Raise an error if the batch cannot be divided evenly among the processes."""
        streams_per_process(self.config, self.config.run.devices * self.config.run.num_nodes)

    def make_trainable(self, fabric: "Fabric") -> "LMTrainable":
        """Move the model to its device and return it as a `Trainable`."""
        return LMTrainable(self, fabric)


@dataclass(frozen=True)
class LMBatch:
    """The network inputs of one training step, and the position in the text after it.

    Gradients are accumulated over the parts. The softmax rows can be drawn in advance.
    """

    parts: list[SegmentBatch]
    drawn: SoftmaxRows | None
    position: TextPosition


class LMTrainable:
    """Implementation of `Trainable` for a language model in one process of a run."""

    loss_names: tuple[str, ...] = ("forward_loss", "backward_loss")
    loss_unit: str = "nats per token, both directions"

    def __init__(self, job: LMTrainingJob, fabric: "Fabric") -> None:
        self.job, self.config, self.fabric = job, job.config, fabric
        config, network = job.config, job.network
        assert network.softmax is not None
        n_softmax = sum(value.numel() for value in network.softmax.parameters())
        if job.corpus.whole_text is not None:
            n_words = len(job.corpus.vocabulary)
            if n_words == network.config.n_softmax_words:  # a fine-tuned model can have its own
                n_softmax = n_softmax * job.corpus.whole_text.n_vocabulary // n_words
        self.plan = plan(
            network.config,
            config,
            n_bilm=count_parameters(dict(network.named_parameters())),
            n_softmax=n_softmax,
            n_pairs=job.corpus.n_train_pairs,
        )
        self.n_steps = self.plan.n_steps
        self.warmup_steps = self.config.optimizer.warmup_steps or 0
        self.steps_per_epoch = self.plan.steps_per_epoch
        self.tokens_per_step = self.plan.tokens_per_step
        self.learner = job.make_learner(
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
            local_streams=range(first, first + self.learner.n_streams),
        )
        # Position after the last step; the segment loader is ahead of it by prefetched batches.
        self.position: TextPosition = self.stream.position()

    def describe(self) -> str:
        """Return the run plan as a table, with notes."""
        notes = length_notes(self.n_steps, self.config.optimizer, self.config.run)
        if self.job.corpus.whole_text is not None:
            notes.insert(0, str(self.job.corpus.whole_text))
        return "\n".join([str(self.plan), *(f"{'note':9}{note}" for note in notes)])

    # ------------------------------------------------------------------------ steps

    def batches(self, first_step: int) -> Iterator[LMBatch]:
        """Yield batches indefinitely, starting at the current position in the text."""
        for number, segment in enumerate(self.stream, start=first_step):
            parts = self.learner.batches(segment)
            yield LMBatch(parts, self.learner.draw(parts, number), segment.position)

    def step(self, batch: LMBatch, number: int, rate_factor: float = 1.0) -> StepResult:
        """Train on one segment."""
        result = self.learner.step(batch.parts, number, batch.drawn, rate_factor)
        self.position = batch.position
        return result

    def shorten(self, batch: LMBatch, n_steps: int) -> tuple[LMBatch, float]:
        """Return the first time steps of a batch, and their fraction of the BPTT segment."""
        parts = [part.first_steps(n_steps) for part in batch.parts]
        short = dataclasses.replace(batch, parts=parts)
        return short, parts[0].index.shape[1] / self.config.stream.unroll

    def message(self, step: int, *, is_evaluated: bool) -> None:
        """Return None: nothing is printed besides losses and scores."""

    def memory_advice(self) -> str:
        """Return an out-of-memory message that suggests a batch size that fits."""
        batch, memory = self.config.stream.batch_size, self.plan.memory
        available = available_memory(self.fabric.device)
        # The batch did not fit, even if the estimate says so: suggest at most half of it.
        fits = batch // 2
        if available is not None:
            fits = min(fits, fitting_batch(batch, memory.total, memory.fixed, available))
        advice = f"Use --batch-size {fits}" if fits else "Use a smaller model"
        return (
            f"Out of memory with batch_size {batch} and unroll {self.config.stream.unroll}. "
            f"{advice}, or keep the batch size and split the batch with --accumulate "
            f"{2 * self.config.run.accumulate}."
        )

    # ------------------------------------------------------------------------ evaluation

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Return the sums of losses and token counts on the held-out text, over all processes."""
        fabric, stream = self.fabric, self.config.stream
        if "valid" not in self.job.corpus.splits:
            return None
        each = max(1, self._max_heldout_rows // fabric.world_size)
        segments = read_once(
            self.job.corpus.splits["valid"],
            n_streams=each * fabric.world_size,
            n_steps=stream.unroll,
            reset=bool(stream.reset),
            order="text" if stream.order == "text" else "queue",
            local_streams=range(fabric.global_rank * each, (fabric.global_rank + 1) * each),
        )
        n_pairs = self.job.corpus.splits["valid"].n_pairs
        n_segments = math.ceil(n_pairs / (each * fabric.world_size * stream.unroll))
        softmax = self.job.network.softmax
        assert softmax is not None
        with fabric.autocast():
            sums: Any = measure(
                self.learner.model,
                softmax,
                self.job.tables,
                watch(segments, n_segments),
                carry=not stream.reset,
            )
        if fabric.world_size > 1:
            sums = fabric.all_reduce(sums.to(fabric.device), reduce_op="sum")
        numbers: list[float] = torch.as_tensor(sums).tolist()
        # While only a new softmax is trained, its loss can have any value.
        if step > self.job.softmax_steps:
            self._check(self.evaluation(numbers).loss, step)
        return numbers

    @property
    def _max_heldout_rows(self) -> int:
        """Largest batch size of evaluations on the held-out text."""
        stream = self.config.stream
        return min(stream.batch_size, RESET_STREAMS if stream.reset else CARRY_STREAMS)

    def evaluation(self, numbers: list[float]) -> Perplexity:
        """Return the perplexity computed from the sums returned by `measure`."""
        return perplexity_of(torch.tensor(numbers, dtype=torch.float64), self._character_ratio)

    @cached_property
    def _character_ratio(self) -> CharacterRatio:
        corpus = self.job.corpus
        return character_ratio(corpus.splits["valid"], self.job.tables, corpus.reading.tokenizer)

    def _check(self, loss: float, step: int) -> None:
        """Raise an error if the held-out loss is NaN or far above the loss of uniform guessing."""
        chance = math.log(self.job.network.config.n_softmax_words)
        if not loss <= 2 * chance + DIVERGENCE_MARGIN:
            raise Diverged(
                f"Training diverged before step {step:,}: the held-out loss is {loss:.4g}, but "
                f"uniform guessing has a loss of {chance:.4g}. {DIVERGENCE_ADVICE}"
            )

    # ------------------------------------------------------------------------ checkpoints

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(torch.isfinite(value).all()) for value in self.job.network.parameters())

    def state_dict(self) -> dict[str, object]:
        """Return the learner state, the position in the text, and the corpus fingerprint."""
        return {
            "learner": self.learner.state_dict(),
            "position": self.position,
            "corpus": self._corpus_fingerprint(),
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state of a run on the same corpus, with any number of processes."""
        current = self._corpus_fingerprint()
        recorded = entry(state, "corpus", list)
        if recorded != current:
            before, now = _corpus_size(recorded), _corpus_size(current)
            counts = ", with other word counts" if before == now else ""
            raise ConfigError(
                f"{Path(self.config.out)} contains a run on another corpus: {before}; now "
                f"{now}{counts}. Use that corpus, or choose another --out."
            )
        self.learner.load_state_dict(entry(state, "learner", dict))
        self.position = entry(state, "position", dict)
        self.stream.restore(self.position)

    def _corpus_fingerprint(self) -> list[int]:
        """Return the number of words, sentences and word types, and a checksum of word counts."""
        train = self.job.corpus.splits["train"]
        counts = zlib.crc32(np.ascontiguousarray(self.job.corpus.counts).tobytes())
        return [train.n_words, train.n_sentences, len(self.job.corpus.words), counts]

    def save_model(self, folder: Path, step: int, evaluation: Perplexity | None) -> None:
        """Write the current model, including its training record."""
        train = self.job.corpus.splits["train"]
        record: dict[str, object] = dict(self.job.model.training or {})
        record |= {
            PROGRAM: f"elmo-torch {__version__}",
            TEXT: f"{format_count(train.n_words, 'word')} in "
            f"{format_count(train.n_sentences, 'sentence')}",
            SENTENCES: self.job.corpus.reading.sentences,
            STEPS: f"{step:,} of {self.tokens_per_step:,} tokens, "
            f"{step / self.steps_per_epoch:.2f} epochs",
            RESET_SHARE: self.config.stream.reset or 0.0,
        }
        if evaluation is not None:
            record |= {
                HELDOUT_PERPLEXITY: f"forward {evaluation.forward:.2f}, backward "
                f"{evaluation.backward:.2f} (full softmax, "
                f"{'state reset' if self.config.stream.reset else 'state carried'})",
                HELDOUT_BITS_PER_CHARACTER: f"{evaluation.values()['bits_per_character']:.4f}",
                HELDOUT_CHARACTERS: f"{evaluation.n_characters:,}"
                f"{' (estimated)' * evaluation.characters_estimated}",
                HELDOUT_OOV_RATE: f"{evaluation.unknown_rate:.2%}",
            }
        weights = {
            name: value.detach().cpu() for name, value in self.job.network.state_dict().items()
        }
        model_folder.write(
            dataclasses.replace(self.job.model, weights=weights, training=record), folder
        )

    def result(self, state: RunState, note: str) -> TrainResult:
        """Return the result of the run, including the best perplexity and the baseline."""
        return TrainResult(
            self.config.out,
            self.plan,
            state.step,
            state.seconds,
            self.evaluation(state.best) if state.best else None,
            note,
            self.evaluation(state.before) if state.before else None,
            carried_rows=0 if self.config.stream.reset else self._max_heldout_rows,
            is_first=self.fabric.is_global_zero,
        )


def _corpus_size(fingerprint: list[int]) -> str:
    """Return the numbers of a corpus fingerprint as text."""
    n_words, n_sentences, n_distinct, _ = fingerprint
    return f"{n_words:,} words in {n_sentences:,} sentences, {n_distinct:,} distinct words"
