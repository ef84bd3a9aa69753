"""Training steps: forward, loss, backward, gradient exchange, clipping, update.

The random generator is seeded with the step number before each step, so that the result of a step
does not depend on evaluations or restarts before it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.bptt_segments import BPTTSegment
from elmo.corpus.token_tables import SegmentBatch, TokenTables
from elmo.errors import ConfigError
from elmo.kernels.torch_kernels import Kernels
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.train.checkpoint import entry
from elmo.train.cuda_graph import ROWS_MULTIPLE, CudaGraphStep, can_capture
from elmo.train.muon import hidden_matrices
from elmo.train.optim import (
    clip_gradients,
    learning_rate,
    load_optimizer,
    make_optimizer,
    seed_step,
    set_rate,
)
from elmo.train.softmax_heads import (
    ExactSoftmaxHead,
    SampledSoftmaxHead,
    SoftmaxHead,
    SoftmaxRows,
    all_gather,
)
from elmo.train.step_input import SegmentTensors, StepInput
from elmo.train.trainable import StepResult

if TYPE_CHECKING:
    from lightning.fabric import Fabric

TrainingConfig = PretrainConfig | FinetuneConfig


class _OpaqueTensors:
    """Wraps module arguments or results to hide them from Fabric's automatic dtype conversion.

    In mixed precision, Fabric would otherwise round the carried cell states to bfloat16 and convert
    all outputs to float32.
    """

    def __init__(self, *values: Any) -> None:
        self.values = values


class _OpaqueModule(nn.Module):
    """Module wrapper that receives arguments and returns results as `_OpaqueTensors`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, arguments: _OpaqueTensors) -> _OpaqueTensors:
        return _OpaqueTensors(*self.module(*arguments.values))


class Learner:
    """Trains a network; holds its optimizers and the LSTM states of its streams."""

    def __init__(
        self,
        fabric: "Fabric",
        network: ELMoNetwork,
        config: TrainingConfig,
        tables: TokenTables,
        *,
        n_steps: int,
        softmax_steps: int = 0,
    ) -> None:
        """Move the network, which is modified in place, to its device and create the optimizers.

        The token tables are copied to the device. In the first `softmax_steps` of the `n_steps` of
        the run, only the softmax is trained.
        """
        self.fabric = fabric
        self.network = network
        self.config = config
        self.tables = tables
        self.n_steps = n_steps
        self.softmax_steps = softmax_steps
        self.n_streams = streams_per_process(config, fabric.world_size)
        network.requires_grad_(True)
        fabric.to_device(network)
        self.model = BidirectionalLM(
            bilm=network.bilm,
            regularization=config.regularization,
            kernels=Kernels(config.run.kernel),
        )
        self.wrapped = fabric.setup_module(_OpaqueModule(self.model))
        self.head = self._make_head()
        self._broadcast_softmax()
        self._dense = [*self.model.parameters(), *self.head.dense_parameters()]
        use_graph = can_capture(fabric, config)
        self.graph_step = CudaGraphStep(fabric.device) if use_graph else None
        self.optimizer = make_optimizer(
            self._dense,
            config.optimizer,
            hidden=hidden_matrices(self.model),
            capturable=use_graph,
        )
        self.token_rows = torch.from_numpy(tables.rows).to(fabric.device)
        state = LSTMState.zeros(network.config.lstm, self.n_streams, device=fabric.device)
        self.h, self.c = state.h, state.c

    def _make_head(self) -> SoftmaxHead:
        config, softmax = self.config, self.network.softmax
        assert softmax is not None
        if config.loss.softmax == "sampled":
            if config.regularization.tied or not isinstance(softmax, nn.Linear):
                raise ConfigError(
                    "--softmax sampled cannot be combined with --tied, nor be used for a model "
                    "with an adaptive softmax."
                )
            return SampledSoftmaxHead(
                softmax,
                config.loss,
                config.optimizer,
                seed=config.run.seed,
                kernel=config.run.kernel,
            )
        words = self.network.bilm.encoder.words
        if not config.regularization.tied:
            return ExactSoftmaxHead(softmax)
        if words is None or not isinstance(softmax, nn.Linear):
            raise ConfigError(
                "--tied needs a model with word input and a full softmax. Set --word-dim and "
                "--characters none."
            )
        if words.weight[1:].shape != softmax.weight.shape:
            raise ConfigError(
                f"--tied needs softmax weights and input word embeddings of the same shape (got "
                f"{tuple(softmax.weight.shape)} and {tuple(words.weight[1:].shape)}). Set "
                "--word-dim and --projection-dim to the same value."
            )
        return ExactSoftmaxHead(softmax, tied_to=words)

    def _broadcast_softmax(self) -> None:
        """Copy the softmax of the first process to all others, as Fabric does for the biLM."""
        if self.fabric.world_size > 1 and self.network.softmax is not None:
            for value in self.network.softmax.parameters():
                value.data.copy_(self.fabric.broadcast(value.data))

    # ------------------------------------------------------------------------ one step

    def batches(self, segment: BPTTSegment) -> list[SegmentBatch]:
        """Split the segment of this process into batches for gradient accumulation."""
        size = self.n_streams // self.config.run.accumulate
        return [
            self.tables.batch(segment, slice(first, first + size))
            for first in range(0, self.n_streams, size)
        ]

    def draw(self, batches: list[SegmentBatch], number: int) -> SoftmaxRows | None:
        """Sample the softmax candidates of a step in advance; None if that is not possible."""
        if self.fabric.world_size > 1 or isinstance(self.head, ExactSoftmaxHead):
            return None
        targets = np.concatenate([batch.targets.ravel() for batch in batches])
        return self.head.draw(number, targets, 1 if self.graph_step is None else ROWS_MULTIPLE)

    def step(
        self,
        batches: list[SegmentBatch],
        number: int,
        drawn: SoftmaxRows | None = None,
        rate_factor: float = 1.0,
    ) -> StepResult:
        """Train on one segment, as split by `batches`; the result has one loss for each direction.

        Steps are numbered from 0. `drawn` is the result of `draw`, if it was called in advance.
        `rate_factor` is applied to the scheduled learning rate.
        """
        if drawn is None:
            drawn = self._draw_for_all_processes(batches, number)
        rate = rate_factor * learning_rate(self.config.optimizer, number, self.n_steps)
        set_rate(self.optimizer, rate)
        step_input = StepInput.of(batches, drawn)
        frozen = number < self.softmax_steps
        if self.graph_step is not None:
            self._seed(number, 0)
            losses, norm = self.graph_step(self._update, step_input, frozen=frozen)
        else:
            losses, norm = self._update(step_input.to(self.fabric.device), frozen, number)
        return StepResult(losses, norm, rate)

    def _draw_for_all_processes(
        self, batches: list[SegmentBatch], number: int
    ) -> SoftmaxRows | None:
        """Sample the softmax candidates of a step, given the targets of all processes."""
        if self.fabric.world_size == 1 or isinstance(self.head, ExactSoftmaxHead):
            return self.draw(batches, number)
        targets = np.concatenate([batch.targets for batch in batches], axis=2)
        everywhere = all_gather(torch.from_numpy(targets).to(self.fabric.device), self.fabric)
        return self.head.draw(number, torch.stack(everywhere).cpu().numpy())

    def _update(
        self, step_input: StepInput, frozen: bool, number: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the gradients and update the weights; captured as a CUDA graph if possible.

        If frozen, only the softmax is trained. The step number determines the seed of each batch;
        None if the random generator is already seeded. Returns the losses of both directions, (2,),
        and the gradient norm before clipping.
        """
        self.head.begin(step_input.rows)
        losses = self._gradients(step_input.batches, frozen, number)
        self.head.exchange(self.fabric)
        norm = self._clip()
        self.optimizer.step()
        self.head.update(self.optimizer.param_groups[0]["lr"])
        self._copy_tied()
        self.optimizer.zero_grad(set_to_none=True)
        return losses, norm

    def _gradients(
        self, parts: tuple[SegmentTensors, ...], frozen: bool, number: int | None
    ) -> Tensor:
        """Compute the gradients of a step, update the LSTM states and return the mean losses."""
        optimizer = self.config.optimizer
        scale = optimizer.loss_scale
        if scale is None:
            scale = float(self.config.stream.unroll) if optimizer.optimizer == "adagrad" else 1.0
        total = torch.zeros(2, device=self.fabric.device)
        states: list[tuple[Tensor, Tensor]] = []
        size = self.n_streams // len(parts)
        streams = (torch.split(self.h, size, dim=2), torch.split(self.c, size, dim=2))
        for part_number, (part, h, c) in enumerate(zip(parts, *streams, strict=True)):
            if number is not None:
                self._seed(number, part_number)
            is_last = part_number == len(parts) - 1
            with self.fabric.no_backward_sync(self.wrapped, enabled=not is_last):
                losses, new_h, new_c = self._losses(part, h, c, frozen=frozen)
                self.fabric.backward(losses.mean() * (scale / len(parts)))
            total += losses.detach() / len(parts)
            states.append((new_h.detach(), new_c.detach()))
        # In place, since a captured graph reads these tensors.
        torch.cat([state[0] for state in states], dim=2, out=self.h)
        torch.cat([state[1] for state in states], dim=2, out=self.c)
        return total

    def _losses(
        self, part: SegmentTensors, h: Tensor, c: Tensor, *, frozen: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean loss of each direction, of shape (2,), and the final LSTM state."""
        rows = self.token_rows[part.words].long()
        resets = part.resets if self.config.stream.reset else None
        with torch.set_grad_enabled(not frozen):
            hidden, h, c = self.wrapped(_OpaqueTensors(rows, part.index, resets, h, c)).values
        with self.fabric.autocast():
            losses = self.mean_losses(hidden, part)
        return losses, h, c

    def mean_losses(self, hidden: Tensor, part: SegmentTensors) -> Tensor:
        """Return the mean loss of each direction, (2,); subclasses can compute another loss.

        The hidden vectors are (2, time, streams, dim). The method can be captured as a CUDA graph.
        """
        losses = [
            self.head.mean_loss(hidden[side].flatten(0, 1), part.targets[side].flatten(), side)
            for side in (0, 1)
        ]
        return torch.stack(losses)

    def _seed(self, number: int, part: int) -> None:
        seed_step(self.fabric.device, self.config.run.seed, number, part, self.fabric.global_rank)

    def _clip(self) -> Tensor:
        """Clip the total gradient norm and return the norm before clipping."""
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        gradients += self.head.gradients()
        return clip_gradients(gradients, self.config.optimizer.clip_norm)

    def _copy_tied(self) -> None:
        """Copy the input word embeddings of a tied model to its softmax, which is saved too."""
        if self.config.regularization.tied:
            softmax, words = self.network.softmax, self.network.bilm.encoder.words
            assert isinstance(softmax, nn.Linear)
            assert words is not None
            softmax.weight.data.copy_(words.weight.data[1:])

    # ------------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, object]:
        """Return the weights, the optimizer states and the LSTM states of all streams.

        Every process must call this method.
        """
        states = [self.h, self.c]
        if self.fabric.world_size > 1:
            states = [torch.cat(all_gather(state, self.fabric), dim=2) for state in states]
        return {
            "weights": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rows": [optimizer.state_dict() for optimizer in self.head.row_optimizers()],
            "h": states[0],
            "c": states[1],
            "n_words": 0 if self.graph_step is None else self.graph_step.n_words,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state returned by `state_dict`; the number of processes can differ."""
        self.network.load_state_dict(entry(state, "weights", dict))
        load_optimizer(self.optimizer, entry(state, "optimizer", dict))
        row_states = entry(state, "rows", list)
        for optimizer, rows in zip(self.head.row_optimizers(), row_states, strict=True):
            optimizer.load_state_dict(rows)
        first = self.fabric.global_rank * self.n_streams
        streams = slice(first, first + self.n_streams)
        self.h.copy_(entry(state, "h", Tensor)[:, :, streams])
        self.c.copy_(entry(state, "c", Tensor)[:, :, streams])
        if self.graph_step is not None:
            self.graph_step.forget()
            self.graph_step.n_words = entry({"n_words": 0, **state}, "n_words", int)

    def load_accumulators(self, accumulators: Mapping[str, Tensor]) -> None:
        """Load Adagrad's sums of squared gradients of an earlier run, by parameter name.

        Parameters without an accumulator start with the initial value. So does the padding row of
        an embedding, which does not exist in bilm-tf: an accumulator of 0 would cause a division by
        zero.
        """
        named = dict(self.network.named_parameters())
        for name, value in accumulators.items():
            state = self.optimizer.state.get(named[name]) if name in named else None
            if state:
                state["sum"].copy_(torch.where(value > 0, value, self.config.optimizer.accumulator))
        for optimizer, name in zip(
            self.head.row_optimizers(), ("softmax.weight", "softmax.bias"), strict=False
        ):
            if name in accumulators:
                optimizer.state["sum"].copy_(accumulators[name])


def streams_per_process(config: TrainingConfig, n_processes: int) -> int:
    """Return the number of streams (batch rows) per process, which must divide evenly."""
    parts = n_processes * config.run.accumulate
    if config.stream.batch_size % parts:
        raise ConfigError(
            f"batch_size ({config.stream.batch_size}) must be a multiple of {parts} "
            f"({n_processes} process(es) with --accumulate {config.run.accumulate})."
        )
    return config.stream.batch_size // n_processes
