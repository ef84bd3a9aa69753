"""One update: forward, loss, backward, exchange, clip, step; and everything that a step changes.

What is random in a step is seeded by its number, so nothing that happens between steps, a restart
included, can change what a later one computes.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.bptt_segments import BPTTSegment
from elmo.corpus.token_tables import SegmentBatch, TokenTables
from elmo.errors import ConfigError
from elmo.kernels.device import sent
from elmo.model.language_model import LanguageModel
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.train.cuda_graph import (
    ROWS_MULTIPLE,
    Arrays,
    CudaGraphStep,
    arrays_of,
    can_capture,
    rows_of,
)
from elmo.train.optim import (
    clip_gradients,
    learning_rate,
    make_optimizer,
    seed_step,
    set_rate,
)
from elmo.train.softmax_heads import (
    Drawn,
    ExactSoftmaxHead,
    SampledSoftmaxHead,
    SoftmaxHead,
    StepRows,
    gathered,
)
from elmo.train.trainable import StepResult

if TYPE_CHECKING:
    from lightning.fabric import Fabric

TrainingConfig = PretrainConfig | FinetuneConfig


class _Held:
    """Tensors on their way through a wrapped module, which converts what it can see of them.

    In mixed precision it would round the cells that are carried on, and widen all vectors.
    """

    def __init__(self, *values: Any) -> None:
        self.values = values


class _Shell(nn.Module):
    """A module whose arguments and results are held."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, held: _Held) -> _Held:
        return _Held(*self.module(*held.values))


class Learner:
    """A network with its optimisers and the state of its lanes."""

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
        """Move the network to its device and make the optimisers.

        Args:
            fabric: device, processes and precision.
            network: changed in place.
            config: of the run.
            tables: of the corpus; its token rows are kept on the device.
            n_steps: of the whole run, which the schedule needs.
            softmax_steps: steps in which the softmax learns alone.
        """
        self.fabric = fabric
        self.network = network
        self.config = config
        self.tables = tables
        self.n_steps = n_steps
        self.softmax_steps = softmax_steps
        self.n_lanes = lanes_of_process(config, fabric.world_size)
        network.requires_grad_(True)
        fabric.to_device(network)
        self.model = LanguageModel(bilm=network.bilm, regular=config.regular)
        network.bilm.use_kernel(config.run.kernel)
        self.wrapped = fabric.setup_module(_Shell(self.model))
        self.head = self._make_head()
        self._broadcast_softmax()
        self._dense = [*self.model.parameters(), *self.head.dense_parameters()]
        is_recorded = can_capture(fabric, config)
        self.recorded = CudaGraphStep(fabric.device) if is_recorded else None
        self.optimizer = make_optimizer(self._dense, config.optimizer, recorded=is_recorded)
        self.token_rows = torch.from_numpy(tables.rows).to(fabric.device)
        state = LSTMState.zeros(network.config.lstm, self.n_lanes, device=fabric.device)
        self.h, self.c = state.h, state.c

    def _make_head(self) -> SoftmaxHead:
        config, softmax = self.config, self.network.softmax
        assert softmax is not None
        if config.loss.softmax == "sampled":
            if config.regular.tied or not isinstance(softmax, nn.Linear):
                raise ConfigError("a sampled softmax cannot be tied to the input, nor be adaptive")
            return SampledSoftmaxHead(
                softmax,
                config.loss,
                config.optimizer,
                seed=config.run.seed,
                kernel=config.run.kernel,
            )
        words = self.network.bilm.encoder.words
        if not config.regular.tied:
            return ExactSoftmaxHead(softmax)
        if words is None or not isinstance(softmax, nn.Linear):
            raise ConfigError(
                "tied is for models whose input is words, with a full softmax: set word_dim, and "
                "characters to none"
            )
        if words.weight[1:].shape != softmax.weight.shape:
            raise ConfigError(
                f"tied: the softmax has {tuple(softmax.weight.shape)} weights, the input words "
                f"{tuple(words.weight[1:].shape)}; word_dim and projection_dim must be equal"
            )
        return ExactSoftmaxHead(softmax, tied_to=words)

    def _broadcast_softmax(self) -> None:
        """Give every process the softmax of the first; the rest is broadcast with the module."""
        if self.fabric.world_size > 1 and self.network.softmax is not None:
            for value in self.network.softmax.parameters():
                value.data.copy_(self.fabric.broadcast(value.data))

    # ------------------------------------------------------------------------ one step

    def batches(self, window: BPTTSegment) -> list[SegmentBatch]:
        """Cut a window of this process into the parts computed one after another."""
        size = self.n_lanes // self.config.run.accumulate
        return [
            self.tables.batch(window, slice(first, first + size))
            for first in range(0, self.n_lanes, size)
        ]

    def draw(self, batches: list[SegmentBatch], number: int) -> Drawn | None:
        """Find out what a step will touch of the softmax; ahead of it, where nobody else is asked.

        Args:
            batches: of the step.
            number: of the step, from 0.
        """
        if self.fabric.world_size > 1 or isinstance(self.head, ExactSoftmaxHead):
            return None
        targets = np.concatenate([batch.targets.ravel() for batch in batches])
        return self.head.draw(number, targets, 1 if self.recorded is None else ROWS_MULTIPLE)

    def step(
        self, batches: list[SegmentBatch], number: int, drawn: Drawn | None = None
    ) -> StepResult:
        """Learn from a window; the losses are those of the forward and the backward direction.

        Args:
            batches: its parts, from `batches`.
            number: of the step, from 0.
            drawn: what `draw` found, if that was asked ahead.
        """
        if drawn is None:
            drawn = self._draw_together(batches, number)
        rate = learning_rate(self.config.optimizer, number, self.n_steps)
        set_rate(self.optimizer, rate)
        frozen = number < self.softmax_steps
        if self.recorded is not None:
            (batch,) = batches
            self._seed(number, 0)
            arrays = arrays_of(batch, drawn)
            losses, norm = self.recorded(self._update, arrays, frozen=frozen)
            return StepResult(losses, norm, rate)
        parts = [self._on_device(arrays_of(batch, None)) for batch in batches]
        rows = None
        if drawn is not None:
            rows = rows_of(self._on_device(arrays_of(None, drawn)))
        losses, norm = self._learn(parts, rows, frozen=frozen, number=number)
        return StepResult(losses, norm, rate)

    def _draw_together(self, batches: list[SegmentBatch], number: int) -> Drawn | None:
        """Find out what a step will touch of the softmax in all processes."""
        if self.fabric.world_size == 1 or isinstance(self.head, ExactSoftmaxHead):
            return self.draw(batches, number)
        targets = np.concatenate([batch.targets for batch in batches], axis=2)
        everywhere = gathered(torch.from_numpy(targets).to(self.fabric.device), self.fabric)
        return self.head.draw(number, torch.stack(everywhere).cpu().numpy())

    def _on_device(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: sent(array, self.fabric.device) for name, array in arrays.items()}

    def _update(self, given: dict[str, Tensor], frozen: bool) -> tuple[Tensor, Tensor]:
        """Learn from a window that is one part, as it can be recorded."""
        rows = rows_of(given) if "ids" in given else None
        return self._learn([given], rows, frozen=frozen, number=None)

    def _learn(
        self,
        parts: list[dict[str, Tensor]],
        rows: StepRows | None,
        *,
        frozen: bool,
        number: int | None,
    ) -> tuple[Tensor, Tensor]:
        """Find the gradients and move; gives losses and norm.

        Args:
            parts: of the window, from `arrays_of`.
            rows: of the softmax.
            frozen: whether the softmax learns alone.
            number: of the step, which seeds each part; None where that was done before.
        """
        self.head.begin(rows)
        losses = self._gradients(parts, frozen, number)
        self.head.exchange(self.fabric)
        norm = self._clip()
        self.optimizer.step()
        self.head.update(self.optimizer.param_groups[0]["lr"])
        self._copy_tied()
        self.optimizer.zero_grad(set_to_none=True)
        return losses, norm

    def _gradients(
        self, parts: list[dict[str, Tensor]], frozen: bool, number: int | None
    ) -> Tensor:
        """Fill the gradients of a step and move the state on; gives the mean losses."""
        optimizer = self.config.optimizer
        scale = optimizer.loss_scale
        if scale is None:
            scale = float(self.config.stream.unroll) if optimizer.optimizer == "adagrad" else 1.0
        total = torch.zeros(2, device=self.fabric.device)
        states: list[tuple[Tensor, Tensor]] = []
        for place, (part, h, c) in enumerate(self._with_states(parts)):
            if number is not None:
                self._seed(number, place)
            is_last = place == len(parts) - 1
            with self.fabric.no_backward_sync(self.wrapped, enabled=not is_last):
                losses, new_h, new_c = self._losses(part, h, c, frozen=frozen)
                self.fabric.backward(losses.mean() * (scale / len(parts)))
            total += losses.detach() / len(parts)
            states.append((new_h.detach(), new_c.detach()))
        # In their place, where a recorded step finds them.
        torch.cat([state[0] for state in states], dim=2, out=self.h)
        torch.cat([state[1] for state in states], dim=2, out=self.c)
        return total

    def _with_states(
        self, parts: list[dict[str, Tensor]]
    ) -> Iterator[tuple[dict[str, Tensor], Tensor, Tensor]]:
        size = self.n_lanes // len(parts)
        states = (torch.split(self.h, size, dim=2), torch.split(self.c, size, dim=2))
        yield from zip(parts, *states, strict=True)

    def _losses(
        self, part: dict[str, Tensor], h: Tensor, c: Tensor, *, frozen: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give the mean loss of each direction, (2,), and the state after the window."""
        rows = self.token_rows[part["words"]].long()
        resets = part["resets"].bool() if self.config.stream.reset else None
        with torch.set_grad_enabled(not frozen):
            hidden, h, c = self.wrapped(_Held(rows, part["index"], resets, h, c)).values
        with self.fabric.autocast():
            losses = [
                self.head.mean_loss(
                    hidden[side].flatten(0, 1), part["targets"][side].flatten(), side
                )
                for side in (0, 1)
            ]
        return torch.stack(losses), h, c

    def _seed(self, number: int, part: int) -> None:
        seed_step(self.fabric.device, self.config.run.seed, number, part, self.fabric.global_rank)

    def _clip(self) -> Tensor:
        """Scale all gradients to the norm allowed; gives the norm they had."""
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        gradients += self.head.gradients()
        return clip_gradients(gradients, self.config.optimizer.clip_norm)

    def _copy_tied(self) -> None:
        """Keep the softmax of a tied model what its input words are, as it will be saved."""
        if self.config.regular.tied:
            softmax, words = self.network.softmax, self.network.bilm.encoder.words
            assert isinstance(softmax, nn.Linear)
            assert words is not None
            softmax.weight.data.copy_(words.weight.data[1:])

    # ------------------------------------------------------------------------ what is kept

    def state_dict(self) -> dict[str, Any]:
        """Give weights, optimisers and the state of all lanes; every process must call it."""
        states = [self.h, self.c]
        if self.fabric.world_size > 1:
            states = [torch.cat(gathered(state, self.fabric), dim=2) for state in states]
        return {
            "weights": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rows": [one.state_dict() for one in self.head.row_optimizers()],
            "h": states[0],
            "c": states[1],
            "n_words": 0 if self.recorded is None else self.recorded.n_words,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave, in any number of processes."""
        self.network.load_state_dict(state["weights"])
        # How it is computed is this machine's: the run may have been on another before.
        dials = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": dials})
        for optimizer, rows in zip(self.head.row_optimizers(), state["rows"], strict=True):
            optimizer.load_state_dict(rows)
        first = self.fabric.global_rank * self.n_lanes
        own = slice(first, first + self.n_lanes)
        self.h.copy_(state["h"][:, :, own])
        self.c.copy_(state["c"][:, :, own])
        if self.recorded is not None:
            self.recorded.forget()
            self.recorded.n_words = state.get("n_words", 0)

    def load_accumulators(self, sums: Mapping[str, Tensor]) -> None:
        """Take the sums of squares of an earlier Adagrad, by the names of the network.

        Names that are missing keep their first value, and so does the mask row, which is ours: a
        sum of 0 would divide by 0.
        """
        named = dict(self.network.named_parameters())
        for name, value in sums.items():
            state = self.optimizer.state.get(named[name]) if name in named else None
            if state:
                state["sum"].copy_(torch.where(value > 0, value, self.config.optimizer.accumulator))
        for optimizer, name in zip(
            self.head.row_optimizers(), ("softmax.weight", "softmax.bias"), strict=False
        ):
            if name in sums:
                optimizer.state["sum"].copy_(sums[name])


def lanes_of_process(config: TrainingConfig, n_processes: int) -> int:
    """Count the lanes of each process; a batch that cannot be shared out evenly is refused."""
    parts = n_processes * config.run.accumulate
    if config.stream.batch_size % parts:
        raise ConfigError(
            f"batch_size is {config.stream.batch_size}, which cannot be cut into {parts} equal "
            f"parts ({n_processes} processes, each accumulating over {config.run.accumulate})"
        )
    return config.stream.batch_size // n_processes
