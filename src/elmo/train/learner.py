"""One update: forward, loss, backward, exchange, clip, step; and everything that a step changes.

What is random in a step is seeded by its number, so nothing that happens between steps, a restart
included, can change what a later one computes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.streams import Window
from elmo.corpus.tables import Batch, WordTables
from elmo.errors import ConfigError
from elmo.model.language_model import LanguageModel
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.train.heads import ExactHead, Head, SampledHead, gathered
from elmo.train.optim import clip_scale, learning_rate, make_optimizer

if TYPE_CHECKING:
    from lightning.fabric import Fabric

TrainingConfig = PretrainConfig | FinetuneConfig


@dataclass(frozen=True)
class StepResult:
    """What a step gave, still on the device.

    Attributes:
        losses: mean loss of the forward and the backward direction, as trained on, (2,).
        norm: of all gradients before they were clipped.
        rate: learning rate.
    """

    losses: Tensor
    norm: Tensor
    rate: float


class Learner:
    """A network with its optimisers and the state of its lanes."""

    def __init__(
        self,
        fabric: "Fabric",
        network: ELMoNetwork,
        config: TrainingConfig,
        *,
        n_steps: int,
        softmax_steps: int = 0,
    ) -> None:
        """Move the network to its device and make the optimisers.

        Args:
            fabric: device, processes and precision.
            network: changed in place.
            config: of the run.
            n_steps: of the whole run, which the schedule needs.
            softmax_steps: steps in which the softmax learns alone.
        """
        self.fabric = fabric
        self.network = network
        self.config = config
        self.n_steps = n_steps
        self.softmax_steps = softmax_steps
        self.n_lanes = lanes_of_process(config, fabric.world_size)
        network.requires_grad_(True)
        fabric.to_device(network)
        self.model = LanguageModel(bilm=network.bilm, regular=config.regular)
        for stack in (network.bilm.forward_lstm, network.bilm.backward_lstm):
            stack.kernel = config.run.kernel
        self.wrapped = fabric.setup_module(self.model)
        self.head = self._make_head()
        self._broadcast_softmax()
        self._dense = [*self.model.parameters(), *self.head.dense_parameters()]
        self.optimizer = make_optimizer(self._dense, config.optimizer)
        state = LSTMState.zeros(network.config.lstm, self.n_lanes, device=fabric.device)
        self.h, self.c = state.h, state.c

    def _make_head(self) -> Head:
        config, softmax = self.config, self.network.softmax
        assert softmax is not None
        if config.loss.softmax == "sampled":
            if config.regular.tied or not isinstance(softmax, nn.Linear):
                raise ConfigError("a sampled softmax cannot be tied to the input, nor be adaptive")
            return SampledHead(
                softmax, config.loss, config.optimizer, seed=config.run.seed, fabric=self.fabric
            )
        words = self.network.bilm.encoder.words
        if not config.regular.tied:
            return ExactHead(softmax)
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
        return ExactHead(softmax, tied_to=words)

    def _broadcast_softmax(self) -> None:
        """Give every process the softmax of the first; the rest is broadcast with the module."""
        if self.fabric.world_size > 1 and self.network.softmax is not None:
            for value in self.network.softmax.parameters():
                value.data.copy_(self.fabric.broadcast(value.data))

    # ------------------------------------------------------------------------ one step

    def batches(self, tables: WordTables, window: Window) -> list[Batch]:
        """Cut a window of this process into the parts computed one after another."""
        size = self.n_lanes // self.config.run.accumulate
        return [
            tables.batch(window, slice(first, first + size))
            for first in range(0, self.n_lanes, size)
        ]

    def step(self, batches: list[Batch], number: int) -> StepResult:
        """Learn from a window.

        Args:
            batches: its parts, from `batches`.
            number: of the step, from 0.
        """
        rate = learning_rate(self.config.optimizer, number, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self._gradients(batches, number)
        self.head.exchange(self.fabric)
        norm = self._clip()
        self.optimizer.step()
        self.head.update(rate)
        self._copy_tied()
        self.optimizer.zero_grad(set_to_none=True)
        return StepResult(losses, norm, rate)

    def _gradients(self, batches: list[Batch], number: int) -> Tensor:
        """Fill the gradients of a step and move the state on; gives the mean losses."""
        device = self.fabric.device
        targets = np.concatenate([batch.targets for batch in batches], axis=2)
        self.head.begin(number, torch.from_numpy(targets).to(device))
        optimizer = self.config.optimizer
        scale = optimizer.loss_scale
        if scale is None:
            scale = float(self.config.stream.unroll) if optimizer.optimizer == "adagrad" else 1.0
        total = torch.zeros(2, device=device)
        states: list[tuple[Tensor, Tensor]] = []
        for part, (batch, h, c) in enumerate(self._with_states(batches)):
            self._seed(number, part)
            is_last = part == len(batches) - 1
            with self.fabric.no_backward_sync(self.wrapped, enabled=not is_last):
                losses, new_h, new_c = self._losses(batch, h, c, frozen=number < self.softmax_steps)
                self.fabric.backward(losses.mean() * (scale / len(batches)))
            total += losses.detach() / len(batches)
            states.append((new_h.detach(), new_c.detach()))
        self.h = torch.cat([state[0] for state in states], dim=2)
        self.c = torch.cat([state[1] for state in states], dim=2)
        return total

    def _with_states(self, batches: list[Batch]) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        size = self.n_lanes // len(batches)
        parts = (torch.split(self.h, size, dim=2), torch.split(self.c, size, dim=2))
        yield from zip(batches, *parts, strict=True)

    def _losses(
        self, batch: Batch, h: Tensor, c: Tensor, *, frozen: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give the mean loss of each direction, (2,), and the state after the window."""
        device = self.fabric.device
        rows, index, targets, resets = (
            torch.from_numpy(array).to(device, non_blocking=True)
            for array in (batch.rows, batch.index, batch.targets, batch.resets)
        )
        with torch.set_grad_enabled(not frozen):
            hidden, h, c = self.wrapped(
                rows.long(), index, resets if self.config.stream.reset else None, h, c
            )
        with self.fabric.autocast():
            losses = [
                self.head.losses(hidden[side].flatten(0, 1), targets[side].flatten(), side).mean()
                for side in (0, 1)
            ]
        return torch.stack(losses), h, c

    def _seed(self, number: int, part: int) -> None:
        place = (self.config.run.seed, number, part, self.fabric.global_rank)
        torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1)[0]))

    def _clip(self) -> Tensor:
        """Scale all gradients to the norm allowed; gives the norm they had."""
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        gradients += self.head.gradients()
        norms = torch._foreach_norm(gradients)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        if self.config.optimizer.clip_norm:
            torch._foreach_mul_(gradients, clip_scale(norm, self.config.optimizer.clip_norm))
        return norm

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
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave, in any number of processes."""
        self.network.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        for optimizer, rows in zip(self.head.row_optimizers(), state["rows"], strict=True):
            optimizer.load_state_dict(rows)
        first = self.fabric.global_rank * self.n_lanes
        own = slice(first, first + self.n_lanes)
        self.h = state["h"][:, :, own].to(self.fabric.device).contiguous()
        self.c = state["c"][:, :, own].to(self.fabric.device).contiguous()

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
