"""Optimisers and the schedule of their rate; and the rows of a big table, updated alone.

Adagrad is TensorFlow's: the accumulator begins at 1, there is no epsilon. PyTorch's formula is the
same with those settings.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from elmo.config import OptimizerConfig


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig
) -> torch.optim.Optimizer:
    """Make the optimiser of dense weights; matrices decay, vectors do not.

    Args:
        parameters: what it moves.
        config: its dials.
    """
    listed = list(parameters)
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(
            listed,
            lr=config.learning_rate,
            initial_accumulator_value=config.accumulator,
            eps=0.0,
        )
    matrices = [value for value in listed if value.dim() > 1]
    vectors = [value for value in listed if value.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
    )


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
    def step(self, ids: Tensor, gradient: Tensor, rate: float) -> None:
        """Update rows.

        Args:
            ids: distinct row numbers.
            gradient: of these rows.
            rate: learning rate.
        """
        rows = self.table[ids]
        if self.config.optimizer == "adagrad":
            total = self.state["sum"][ids] + gradient * gradient
            self.state["sum"][ids] = total
            self.table[ids] = rows - rate * gradient / total.sqrt()
            return
        beta1, beta2 = self.config.beta1, self.config.beta2
        count = self.state["count"][ids] + 1
        mean = torch.lerp(self.state["mean"][ids], gradient, 1 - beta1)
        square = torch.lerp(self.state["square"][ids], gradient * gradient, 1 - beta2)
        self.state["count"][ids], self.state["mean"][ids] = count, mean
        self.state["square"][ids] = square
        shape = (-1,) + (1,) * (rows.dim() - 1)
        first = mean / (1 - beta1**count).view(shape)
        second = square / (1 - beta2**count).view(shape)
        # As in AdamW, vectors (here: the bias of each word) do not decay.
        decay = self.config.weight_decay if rows.dim() > 1 else 0.0
        self.table[ids] = rows * (1 - rate * decay) - rate * first / (second.sqrt() + 1e-8)

    def state_dict(self) -> dict[str, Any]:
        """Give the state."""
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a state that `state_dict` gave."""
        for name, value in self.state.items():
            value.copy_(state[name])
