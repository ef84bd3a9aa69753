"""Implementation of `Trainable` for recurrent language models."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo import __version__
from elmo.config.language_model_commands import LMTrainConfig
from elmo.errors import ConfigError, InputError
from elmo.lab.generation import TextGenerator
from elmo.lab.network_text import network_text
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.recurrent_network import NetworkOutput, RecurrentNetwork
from elmo.lab.symbol_text import SymbolText
from elmo.lab.text_loss import TextLoss, evaluation_options, text_loss
from elmo.lab.text_streams import StreamSegment, TextStreams
from elmo.lab.train_lm_result import LMTrainResult
from elmo.lab.weight_averages import WeightAverages
from elmo.model.losses import (
    draw_candidates,
    log_expected_count,
    sampled_logits,
    sampled_losses,
)
from elmo.progress import format_count
from elmo.train.checkpoint import entry
from elmo.train.cuda_graph import CudaGraphStep
from elmo.train.muon import hidden_matrices
from elmo.train.optim import (
    clip_gradients,
    learning_rate,
    load_optimizer,
    make_optimizer,
    seed_step,
    set_rate,
)
from elmo.train.run_state import RunState
from elmo.train.step_input import SegmentTensors, StepInput
from elmo.train.trainable import StepResult, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@dataclass(frozen=True)
class RecurrentTrainingJob:
    """A recurrent language model to be trained, before it is moved to its device."""

    config: LMTrainConfig
    text: SymbolText
    network: RecurrentNetwork

    def make_trainable(self, fabric: "Fabric") -> "RecurrentTrainable":
        """Move the model to its device and return it as a `Trainable`."""
        return RecurrentTrainable(self, fabric)


@dataclass(frozen=True)
class RecurrentBatch:
    """Input of a training step.

    Attributes:
        inputs: Symbols and targets on the host.
        is_first: Whether the step is the first of an epoch.
    """

    inputs: StepInput
    is_first: bool


class RecurrentTrainable:
    """Implementation of `Trainable` for a recurrent language model."""

    loss_names: tuple[str, ...] = ("nats",)
    compare_at: int | None = None

    def __init__(self, job: RecurrentTrainingJob, fabric: "Fabric") -> None:
        """Move the network to its device and create the optimizer."""
        self.job, self.config, self.fabric, self.text = job, job.config, fabric, job.text
        config = job.config
        self.network = job.network.train().to(fabric.device)
        train = job.text.parts["train"]
        self.characters: Tensor | None = None
        ids = train.ids
        if self.network.characters is not None:
            new = self.network.spell(train.inputs.new_words)
            self.characters = torch.cat([self.network.characters, new])
            ids = train.inputs.ids
        self.streams = TextStreams(ids, config.segments, config.run.seed)
        self.steps_per_epoch = float(self.streams.segments_per_epoch)
        self.loss_unit = f"nats per {config.symbols.unit.removesuffix('s')}"
        self.tokens_per_step = self.streams.unroll * self.streams.n_rows
        n_steps = max(1, round(config.run.epochs * self.steps_per_epoch))
        self.n_steps = min(n_steps, config.run.max_steps or n_steps)
        self.warmup_steps = config.optimizer.warmup_steps or 0
        self.chance_loss = math.log(len(job.text.symbols))
        self.parameters = list(self.network.parameters())
        self.state = self.network.zero_state(self.streams.n_rows)
        self.averages: WeightAverages | None = None
        if config.averaging.average != "none":
            self.averages = WeightAverages(self.parameters, config.averaging)
        can_capture = (
            fabric.device.type == "cuda"
            and config.run.kernel != "reference"
            and config.loss.softmax == "full"
        )
        self.graph_step = CudaGraphStep(fabric.device) if can_capture else None
        encoder = self.network.encoder
        self.optimizer = make_optimizer(
            self.parameters,
            config.optimizer,
            hidden=hidden_matrices(self.network.layers, *([] if encoder is None else [encoder])),
            capturable=can_capture,
        )
        every = config.run.evaluate_every
        self.evaluate_every = every or max(1, round(self.steps_per_epoch))

    def describe(self) -> str:
        """Return a description of text and network."""
        text, unit = self.text, self.config.symbols.unit
        lines = [
            f"text      {format_count(len(text.parts['train'].ids), unit.removesuffix('s'))}"
            + "".join(
                f", {name} {len(part.ids):,}"
                for name, part in text.parts.items()
                if name != "train"
            )
            + f"; {len(text.symbols):,} symbols",
            f"network   {network_text(self.config.network)}, "
            f"{sum(value.numel() for value in self.parameters):,} weights",
            f"training  {format_count(self.n_steps, 'step')} of {self.streams.n_rows} x "
            f"{self.streams.unroll}, {self.n_steps / self.steps_per_epoch:.3g} epochs",
        ]
        if self.streams.unroll < self.config.segments.unroll:
            lines.append(
                f"note      segments have {self.streams.unroll} steps instead of "
                f"{self.config.segments.unroll}, because each batch row has no more text"
            )
        return "\n".join(lines)

    # ------------------------------------------------------------------------ steps

    def batches(self, first_step: int) -> Iterator[RecurrentBatch]:
        """Yield batches indefinitely, starting with the batch for step `first_step`."""
        number = first_step
        while True:
            yield self._batch(self.streams.segment(number))
            number += 1

    def _batch(self, segment: StreamSegment) -> RecurrentBatch:
        """Convert a segment.

        With input from characters, only its distinct words are encoded; by a tied network, all
        symbols and the other words of the segment.
        """
        words, index = np.zeros(0, dtype=np.int64), segment.inputs
        if self.characters is not None:
            n_table = len(self.text.symbols) if self.config.network.tied else 0
            words = np.unique(index[index >= n_table])
            index = np.where(index < n_table, index, n_table + np.searchsorted(words, index))
        tensors = SegmentTensors(
            torch.from_numpy(words),
            torch.from_numpy(index),
            torch.from_numpy(self.text.symbols.close(segment.targets)),
            torch.zeros(0, dtype=torch.bool),
        )
        return RecurrentBatch(StepInput((tensors,), None), segment.is_first)

    def step(self, batch: RecurrentBatch, number: int, rate_factor: float) -> StepResult:
        """Train on one segment."""
        config = self.config
        rate = rate_factor * learning_rate(config.optimizer, number, self.n_steps)
        set_rate(self.optimizer, rate)
        if batch.is_first or config.segments.state == "reset":
            self.state.zero_()
        if self.averages is not None:
            self.averages.before_step()
        seed_step(self.fabric.device, config.run.seed, number)
        self.network.train()
        if self.graph_step is not None:
            losses, norm = self.graph_step(self._update, batch.inputs, frozen=False)
        else:
            losses, norm = self._update(batch.inputs.to(self.fabric.device), False, number)
        return StepResult(losses, norm, rate)

    def _update(
        self, step_input: StepInput, frozen: bool, number: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Compute the gradients and update the weights; captured as a CUDA graph if possible."""
        del frozen  # all weights are always trained
        (batch,) = step_input.batches
        network, optimizer = self.network, self.config.optimizer
        with self.fabric.autocast():
            vectors = self._input_vectors(batch.words)
            output = network(vectors, batch.index, self.state)
            loss, objective = self._objective(output, batch.targets, vectors, number)
        is_adagrad = optimizer.optimizer == "adagrad"
        scale = optimizer.loss_scale or (self.streams.unroll if is_adagrad else 1.0)
        (objective * scale).backward()  # type: ignore[no-untyped-call]
        gradients = [value.grad for value in self.parameters if value.grad is not None]
        norm = clip_gradients(gradients, optimizer.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.averages is not None:
            self.averages.update()
        # In place, since a captured graph reads these tensors.
        self.state.copy_(output.state.detach())
        return loss.detach().view(1), norm

    def _input_vectors(self, words: Tensor) -> Tensor:
        """Return the vectors to which the index of a batch refers, given its words."""
        network = self.network
        if not len(words):
            return network.input_vectors()
        assert self.characters is not None
        assert network.encoder is not None
        vectors: Tensor = network.encoder(self.characters[words])
        if not self.config.network.tied:
            return vectors
        return torch.cat([network.input_vectors(), vectors])

    def _objective(
        self, output: NetworkOutput, targets: Tensor, vectors: Tensor, number: int
    ) -> tuple[Tensor, Tensor]:
        """Return the loss to report, and the one to minimize, which includes the penalties."""
        config, rates = self.config, self.config.regularization
        hidden, flat = output.hidden.flatten(0, 1), targets.flatten()
        if config.loss.softmax == "sampled":
            loss = objective = self._sampled_loss(hidden, flat, number)
        elif config.label_smoothing:
            scores = self.network.log_probabilities(hidden, vectors)
            loss = functional.nll_loss(scores, flat)
            objective = torch.lerp(loss, -scores.mean(), config.label_smoothing)
        else:
            loss = objective = self.network.losses(hidden, flat, vectors).mean()
        if rates.activation_penalty:
            objective = objective + rates.activation_penalty * output.hidden.float().pow(2).mean()
        if rates.slowness_penalty and len(output.last) > 1:
            change = (output.last[1:] - output.last[:-1]).float()
            objective = objective + rates.slowness_penalty * change.pow(2).mean()
        return loss, objective

    def _sampled_loss(self, hidden: Tensor, targets: Tensor, number: int) -> Tensor:
        """Return the mean loss of a sampled softmax."""
        softmax, n_symbols = self.network.softmax, len(self.text.symbols)
        assert isinstance(softmax, nn.Linear)
        drawn = draw_candidates(
            min(self.config.loss.n_samples, n_symbols - 1),
            n_symbols,
            (self.config.run.seed, number),
        )
        sampled = torch.from_numpy(drawn.ids).to(hidden.device)
        assert softmax.bias is not None
        logits = sampled_logits(
            hidden,
            true_weight=softmax.weight[targets],
            true_bias=softmax.bias[targets],
            true_log_expected=log_expected_count(targets, n_symbols, drawn.n_tries),
            sampled_weight=softmax.weight[sampled],
            sampled_bias=softmax.bias[sampled],
            sampled_log_expected=log_expected_count(sampled, n_symbols, drawn.n_tries),
            targets=targets,
            sampled=sampled,
        )
        return sampled_losses(logits).mean()

    def shorten(self, batch: RecurrentBatch, n_steps: int) -> tuple[RecurrentBatch, float]:
        """Return the first time steps of a batch, and their fraction of all time steps."""
        (tensors,) = batch.inputs.batches
        short = replace(tensors, index=tensors.index[:n_steps], targets=tensors.targets[:n_steps])
        share = len(short.index) / self.streams.unroll
        return replace(batch, inputs=StepInput((short,), None)), share

    def memory_advice(self) -> str:
        """Return the error message for a step that did not fit into memory."""
        segments = self.config.segments
        return (
            f"Out of memory with batch_size {segments.batch_size} and unroll {segments.unroll}. "
            "Use a smaller --batch-size, --unroll or --hidden-dim."
        )

    def message(self, step: int, *, is_evaluated: bool) -> str | None:
        """Return a sample of text, if one is due."""
        samples = self.config.samples
        every = samples.sample_every
        if every is None:
            is_due = is_evaluated
        else:
            is_due = every > 0 and step % every == 0 and not is_evaluated
        if not is_due:
            return None
        with self._evaluated_weights():
            generator = TextGenerator(self.network, self.text.symbols)
            try:
                text = generator.sample(
                    samples.sample_prompt,
                    samples.sample_length,
                    temperature=samples.sample_temperature,
                    seed=step,
                )
            except InputError:
                # The training loop reports that training diverged, or returns to a checkpoint.
                return f"no sample at step {step:,}: the probabilities are NaN"
        return f"sample at step {step:,}:\n{text}\n"

    # ------------------------------------------------------------------------ evaluation

    @contextmanager
    def _evaluated_weights(self) -> Iterator[None]:
        """Put the network into evaluation mode, with averaged weights if there are any."""
        with nullcontext() if self.averages is None else self.averages.applied():
            self.network.eval()
            yield
            self.network.train()

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Return the loss on the held-out text."""
        if "valid" not in self.text.parts:
            return None
        with self._evaluated_weights():
            loss = self.loss_on("valid", watch)
        # The evaluation at the end of a run can be off schedule.
        if self.averages is not None and step % self.evaluate_every == 0:
            self.averages.add_loss(loss.nats)
        return [loss.nats]

    def loss_on(self, name: str, watch: Watch | None = None) -> TextLoss:
        """Return the loss on a part of the text."""
        options = evaluation_options(self.config.segments)
        part = self.text.parts[name]
        with self.fabric.autocast():
            return text_loss(self.network, self.text.symbols, part, watch=watch, **options)

    def evaluation(self, numbers: list[float]) -> TextLoss:
        """Return the evaluation for the numbers returned by `measure`."""
        return TextLoss.of_part(numbers[0], self.text.parts["valid"], self.text.symbols)

    # ------------------------------------------------------------------------ checkpoints

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(torch.isfinite(value).all()) for value in self.parameters)

    def state_dict(self) -> Mapping[str, object]:
        """Return weights, optimizer, recurrent state, averages, and a fingerprint of the text."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "h": list(self.state.h),
            "c": list(self.state.c),
            "averages": None if self.averages is None else self.averages.state_dict(),
            "text": self._fingerprint(),
            "evaluate_every": self.evaluate_every,
            "n_words": 0 if self.graph_step is None else self.graph_step.n_words,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state returned by `state_dict`.

        Args:
            state: Return value of `state_dict`.

        Raises:
            ConfigError: The state belongs to a run on another text.
        """
        if state["text"] != self._fingerprint():
            raise ConfigError(
                f"{Path(self.config.out)} contains a run on another text. Use that text, or choose "
                "another --out."
            )
        before = state["evaluate_every"]
        is_triggered = self.config.averaging.average == "triggered"
        if is_triggered and before != self.evaluate_every:
            raise ConfigError(
                f"{Path(self.config.out)} contains a run that was evaluated every {before} steps, "
                "on which its average depends. Use the same --evaluate-every, or choose another "
                "--out."
            )
        self.network.load_state_dict(entry(state, "network", dict))
        load_optimizer(self.optimizer, entry(state, "optimizer", dict))
        carried = (*entry(state, "h", list), *entry(state, "c", list))
        for mine, loaded in zip((*self.state.h, *self.state.c), carried, strict=True):
            mine.copy_(loaded)
        if self.averages is not None:
            self.averages.load_state_dict(entry(state, "averages", dict))
        if self.graph_step is not None:
            self.graph_step.forget()
            # Not in checkpoints of earlier versions.
            self.graph_step.n_words = entry({"n_words": 0, **state}, "n_words", int)

    def _fingerprint(self) -> list[int]:
        """Identify all that training depends on; the test text is not part of it."""
        numbers = [len(self.text.symbols)]
        for name in ("train", "valid"):
            if name in self.text.parts:
                part = self.text.parts[name].fingerprint
                numbers += [part.n_symbols, part.crc]
        return numbers

    def save_model(self, folder: Path, step: int, evaluation: TextLoss | None) -> None:
        """Write the current model, including facts about its training."""
        train = self.text.parts["train"]
        training: dict[str, object] = {
            "program": f"elmo-torch {__version__}",
            "symbols": len(train.ids),
            "steps": step,
            "epochs": step / self.steps_per_epoch,
        }
        if evaluation is not None:
            training["held_out"] = evaluation.values()
        with self._evaluated_weights():
            write_model(RecurrentModel(self.network, self.text.symbols, training), folder)

    def result(self, state: RunState, note: str) -> LMTrainResult:
        """Return the result of the run."""
        return LMTrainResult(
            out=self.config.out,
            step=state.step,
            n_steps=self.n_steps,
            seconds=state.seconds,
            best=self.evaluation(state.best) if state.best else None,
            note=note,
        )
