"""Optimizers, learning rate schedules, gradient clipping, and sparse updates of embedding rows.

If steps are captured as a CUDA graph, the learning rate is a tensor, so that it can change between
replays.
"""

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from elmo.config import OptimizerConfig
from elmo.train.muon import Muon

# By default, the decay of a wsd schedule is this part of the run.
WSD_DECAY_DIVISOR = 5


class Adagrad(torch.optim.Optimizer):
    """TensorFlow's variant of Adagrad, with a configurable initial accumulator and no epsilon."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], *, lr: float | Tensor, accumulator: float
    ) -> None:
        """Set the accumulators, which are sums of squared gradients, to their initial value."""
        super().__init__(parameters, {"lr": lr})
        for group in self.param_groups:
            for value in group["params"]:
                self.state[value]["sum"] = torch.full_like(value, accumulator)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the parameters that have a gradient."""
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
    parameters: Iterable[nn.Parameter],
    config: OptimizerConfig,
    *,
    hidden: Collection[nn.Parameter] = (),
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """Create the optimizer for dense parameters, with weight decay for matrices only.

    Muon updates the parameters that are also in `hidden`, and AdamW the others.
    """
    parameters = list(parameters)
    rate: float | Tensor = config.learning_rate
    if capturable:
        rate = torch.tensor(config.learning_rate, device=parameters[0].device)
    if config.optimizer == "adagrad":
        return Adagrad(parameters, lr=rate, accumulator=config.accumulator)
    hidden = set(hidden).intersection(parameters) if config.optimizer == "muon" else set()
    others = [value for value in parameters if value not in hidden]
    matrices = [value for value in others if value.dim() > 1]
    vectors = [value for value in others if value.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=rate,
        betas=(config.beta1, config.beta2),
        # Without it, updating a large table takes ten times as long on a CPU.
        fused=all(value.device.type in ("cpu", "cuda") for value in parameters),
        capturable=capturable,
    )
    # PyTorch warns about capturable steps that are not captured; the first of each shape is not.
    adamw._warned_capturable_if_run_uncaptured = True
    if not hidden:
        return adamw
    ordered = [value for value in parameters if value in hidden]
    return Muon(ordered, adamw, lr=rate, weight_decay=config.weight_decay)


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, object]) -> None:
    """Load a state returned by `state_dict`, except for the options of the optimizer.

    Options such as `fused` depend on the device, and the run may have started on another one. The
    learning rate stays on the device: a CUDA graph would capture one on the CPU as a constant.
    """
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({**state, "param_groups": groups})


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in place if it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(config: OptimizerConfig, step: int, n_steps: int) -> float:
    """Return the learning rate of a step: linear warm-up, then constant or with a decay."""
    warmup_steps = config.warmup_steps or 0
    if step < warmup_steps:
        return config.learning_rate * (step + 1) / warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    if config.schedule == "wsd":
        decay_steps = config.decay_steps or max(1, n_steps // WSD_DECAY_DIVISOR)
        share = min(1.0, max(0, n_steps - step) / decay_steps)
    else:
        done = (step - warmup_steps) / max(1, n_steps - warmup_steps)
        share = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return config.learning_rate * share


def clip_scale(norm: Tensor, clip_norm: float) -> Tensor:
    """Return the scale factor that clips gradients, `clip_norm / max(norm, clip_norm)`."""
    return clip_norm / norm.clamp(min=clip_norm)


def clip_gradients(gradients: list[Tensor], clip_norm: float) -> Tensor:
    """Clip the total norm of gradients in place, unless 0; return the norm before clipping."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if clip_norm:
        torch._foreach_mul_(gradients, clip_scale(norm, clip_norm))
    return norm


def seed_step(device: torch.device, *key: int) -> None:
    """Seed the random generator for a step, so that the step does not depend on earlier ones.

    The seed is derived from the key, such as the seed of the run and the step number.
    """
    seed = int(np.random.SeedSequence(key).generate_state(1)[0])
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    # `torch.manual_seed` seeds every device type; for those not in use it records a stack trace
    # in each call, which takes as long as a third of a small step.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)


class RowOptimizer:
    """Adagrad or AdamW for selected rows of a parameter table; other rows are not accessed.

    With Muon, which is for hidden matrices only, a table has AdamW.

    With Adagrad, the result is the same as if the whole table were updated, since rows without
    gradients do not change. With AdamW, the moment estimates of a row decay only when the row is
    updated, and the bias correction depends on the number of updates of the row.
    """

    def __init__(self, table: Tensor, config: OptimizerConfig) -> None:
        """Initialize the optimizer state for a table (rows, ...), which is updated in place."""
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
        """Update the given distinct rows.

        `valid` is 1 for rows to update, 0 for padding rows, which must have a gradient of zero;
        None if there are no padding rows.
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
        # As in `make_optimizer`, vectors (here the bias of each word) have no weight decay.
        decay = self.config.weight_decay if rows.dim() > 1 else 0.0
        move = rows * decay + first / (second.sqrt() + 1e-8)
        self.table[ids] = rows - rate * valid * move

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of the optimizer."""
        return dict(self.state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load a state returned by `state_dict`."""
        for name, value in self.state.items():
            value.copy_(state[name])
