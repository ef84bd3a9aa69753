"""Optimisers and the schedule of their rate; and the rows of a big table, updated alone.

Where steps are recorded the rate is a tensor, so that a recording can be done with another one.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo.config import OptimizerConfig


class Adagrad(torch.optim.Optimizer):
    """TensorFlow's: the sums of squares begin at a value that is given, there is no epsilon."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], *, lr: float | Tensor, accumulator: float
    ) -> None:
        """Begin the sums.

        Args:
            parameters: what it moves.
            lr: learning rate.
            accumulator: where sums of squares begin.
        """
        super().__init__(parameters, {"lr": lr})
        for group in self.param_groups:
            for value in group["params"]:
                self.state[value]["sum"] = torch.full_like(value, accumulator)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move what has a gradient."""
        for group in self.param_groups:
            values = [value for value in group["params"] if value.grad is not None]
            if not values:
                continue
            gradients = [value.grad for value in values]
            sums = [self.state[value]["sum"] for value in values]
            torch._foreach_addcmul_(sums, gradients, gradients)
            rates = torch._foreach_rsqrt(sums)
            torch._foreach_mul_(rates, group["lr"])
            torch._foreach_addcmul_(values, gradients, rates, -1)


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig, *, recorded: bool = False
) -> torch.optim.Optimizer:
    """Make the optimiser of dense weights; matrices decay, vectors do not.

    Args:
        parameters: what it moves.
        config: its dials.
        recorded: whether its steps are recorded: the rate is a tensor then.
    """
    listed = list(parameters)
    rate: float | Tensor = config.learning_rate
    if recorded:
        rate = torch.tensor(config.learning_rate, device=listed[0].device)
    if config.optimizer == "adagrad":
        return Adagrad(listed, lr=rate, accumulator=config.accumulator)
    matrices = [value for value in listed if value.dim() > 1]
    vectors = [value for value in listed if value.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=rate,
        betas=(config.beta1, config.beta2),
        # Else a step of a large table takes ten times as long on a CPU.
        fused=all(value.device.type in ("cpu", "cuda") for value in listed),
        capturable=recorded,
    )
    # PyTorch warns of a step that could be recorded and is not: the first of each size is not.
    optimizer._warned_capturable_if_run_uncaptured = True
    return optimizer


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in its place where it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(config: OptimizerConfig, step: int, n_steps: int) -> float:
    """Give the rate of a step: a straight rise, then constant or half a cosine.

    Args:
        config: its dials.
        step: from 0.
        n_steps: of the whole run.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    done = (step - config.warmup_steps) / max(1, n_steps - config.warmup_steps)
    share = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return config.learning_rate * (config.final_rate + (1.0 - config.final_rate) * share)


def clip_scale(norm: Tensor, clip_norm: float) -> Tensor:
    """Give the factor that brings gradients down to a norm, `clip / max(norm, clip)`."""
    return clip_norm / norm.clamp(min=clip_norm)


def clip_gradients(gradients: list[Tensor], clip_norm: float) -> Tensor:
    """Scale gradients, in their place, to the norm allowed; gives the norm they had.

    Args:
        gradients: of all weights together.
        clip_norm: the norm allowed; 0 for any.
    """
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if clip_norm:
        torch._foreach_mul_(gradients, clip_scale(norm, clip_norm))
    return norm


def seed_step(device: torch.device, *place: int) -> None:
    """Seed what is random in a step by its place: nothing that happens before can change it.

    Args:
        device: of the step.
        place: numbers that no other step has.
    """
    seed = int(np.random.SeedSequence(place).generate_state(1)[0])
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    # `torch.manual_seed` seeds every kind of device; for those that are not in use it notes a
    # trace of the call each time, which takes as long as a third of a small step.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        here = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[here].manual_seed(seed)


class RowOptimizer:
    """Adagrad or Adam on some rows of a table; the others are neither read nor written.

    For Adagrad that is what updating the whole table would do, a row without gradient standing
    still. Adam's averages decay only when a row is touched, and its bias correction counts the
    times it was.
    """

    def __init__(self, table: Tensor, config: OptimizerConfig) -> None:
        """Make the state of a table.

        Args:
            table: (rows, ...); changed in place.
            config: the optimiser's dials.
        """
        self.table = table
        self.config = config
        self.state: dict[str, Tensor] = {}
        if config.optimizer == "adagrad":
            self.state["sum"] = torch.full_like(table, config.accumulator)
        else:
            self.state["mean"] = torch.zeros_like(table)
            self.state["square"] = torch.zeros_like(table)
            self.state["count"] = torch.zeros(len(table), device=table.device)

    @torch.no_grad()
    def step(
        self, ids: Tensor, gradient: Tensor, rate: float | Tensor, valid: Tensor | None = None
    ) -> None:
        """Update rows.

        Args:
            ids: distinct row numbers.
            gradient: of these rows.
            rate: learning rate.
            valid: 0 for rows that stay as they are, having no gradient, else 1; None for all 1.
        """
        rows = self.table[ids]
        if self.config.optimizer == "adagrad":
            total = self.state["sum"][ids] + gradient * gradient
            self.state["sum"][ids] = total
            self.table[ids] = rows - rate * gradient / total.sqrt()
            return
        if valid is None:
            valid = torch.ones(len(ids), device=rows.device)
        beta1, beta2 = self.config.beta1, self.config.beta2
        shape = (-1,) + (1,) * (rows.dim() - 1)
        count = self.state["count"][ids] + valid
        valid = valid.view(shape).to(rows.dtype)
        mean = torch.lerp(self.state["mean"][ids], gradient, (1 - beta1) * valid)
        square = torch.lerp(self.state["square"][ids], gradient * gradient, (1 - beta2) * valid)
        self.state["count"][ids], self.state["mean"][ids] = count, mean
        self.state["square"][ids] = square
        seen = count.clamp(min=1).view(shape)
        first = mean / (1 - beta1**seen)
        second = square / (1 - beta2**seen)
        # As in AdamW, vectors (here: the bias of each word) do not decay.
        decay = self.config.weight_decay if rows.dim() > 1 else 0.0
        move = rows * decay + first / (second.sqrt() + 1e-8)
        self.table[ids] = rows - rate * valid * move

    def state_dict(self) -> dict[str, Any]:
        """Give the state."""
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a state that `state_dict` gave."""
        for name, value in self.state.items():
            value.copy_(state[name])
