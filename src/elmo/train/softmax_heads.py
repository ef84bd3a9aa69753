"""Softmax heads for training: losses, gradient exchange between processes, and updates.

A softmax head is not part of the module that is wrapped for data parallelism, because only the rows
of a large softmax table that are used in a step need to be exchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import LossConfig, OptimizerConfig
from elmo.errors import ConfigError
from elmo.kernels import sampled_fused
from elmo.kernels.device import product_dtype
from elmo.model.losses import (
    Softmax,
    draw_candidates,
    exact_losses,
    full_losses,
    log_expected_count,
    sampled_logits,
    sampled_losses,
)
from elmo.train.optim import RowOptimizer

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def average(value: Tensor, fabric: "Fabric") -> None:
    """Replace a tensor by its mean over all processes, in place."""
    mean = fabric.all_reduce(value, reduce_op="mean")
    assert isinstance(mean, Tensor)
    value.copy_(mean)


def all_gather(value: Tensor, fabric: "Fabric") -> list[Tensor]:
    """Return a list with the tensor of each process; all must have the same shape."""
    parts = [torch.empty_like(value) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(parts, value.contiguous())
    return parts


@dataclass(frozen=True)
class SoftmaxRows:
    """Softmax rows used in a training step, as integer tensors.

    `ids` are the ascending indices of the candidate, target and padding rows, (rows,); `valid` is 0
    for padding rows. `sampled` are the candidates of each direction, (2, candidates), and `n_tries`
    the numbers of samples drawn to obtain distinct ones, (2,).
    """

    ids: Tensor
    valid: Tensor
    sampled: Tensor
    n_tries: Tensor


class ExactSoftmaxHead:
    """Head for a full or adaptive softmax, computed over all words."""

    def __init__(self, softmax: Softmax, tied_to: nn.Embedding | None = None) -> None:
        """Initialize the head.

        Input word embeddings that are also softmax weights are `tied_to` it, except for the padding
        row at index 0.
        """
        self.softmax = softmax
        self.tied_to = tied_to

    def dense_parameters(self) -> list[nn.Parameter]:
        """Return all parameters of the softmax, or only its bias if the weights are tied."""
        if self.tied_to is not None:
            assert isinstance(self.softmax, nn.Linear)
            return [self.softmax.bias]
        return list(self.softmax.parameters())

    def draw(self, step: int, targets: NDArray[np.int64], multiple: int = 1) -> SoftmaxRows | None:
        """Return None, since every step uses all rows."""
        return None

    def begin(self, rows: SoftmaxRows | None) -> None:
        """Do nothing."""

    def mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Return the mean loss of the predictions in one direction."""
        return self.losses(hidden, targets, side).mean()

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Return the negative log-likelihood of each target, of shape (targets,)."""
        if self.tied_to is None:
            return exact_losses(self.softmax, hidden, targets)
        assert isinstance(self.softmax, nn.Linear)
        return full_losses(hidden, self.tied_to.weight[1:], self.softmax.bias, targets)

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients over all processes; missing gradients count as zero."""
        if fabric.world_size == 1:
            return
        for value in self.dense_parameters():
            if value.grad is None:
                value.grad = torch.zeros_like(value)
            average(value.grad, fabric)

    def gradients(self) -> list[Tensor]:
        """Return the gradients of all parameters that have one."""
        return [value.grad for value in self.dense_parameters() if value.grad is not None]

    def update(self, rate: float | Tensor) -> None:
        """Do nothing, since all parameters are updated by the main optimizer."""

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Return an empty sequence."""
        return ()


class SampledSoftmaxHead:
    """Head for a sampled softmax, which uses and updates only candidate and target rows.

    Every process samples the same candidates and includes the targets of all processes. All
    processes therefore use the same rows, whose gradients can be averaged directly.
    """

    def __init__(
        self,
        softmax: nn.Linear,
        loss: LossConfig,
        optimizer: OptimizerConfig,
        *,
        seed: int,
        kernel: str = "auto",
    ) -> None:
        """Initialize the head; the kernel "reference" disables the fused kernel."""
        n_words = softmax.out_features
        if loss.n_samples >= n_words:
            raise ConfigError(
                f"n_samples ({loss.n_samples}) must be smaller than the vocabulary ({n_words} "
                "words). Set a lower --n-samples, or use --softmax full."
            )
        self.softmax = softmax
        self.n_samples = loss.n_samples
        self.seed = seed
        self.kernel = kernel
        self._n_padded = 0
        self._optimizers = (
            RowOptimizer(softmax.weight.data, optimizer),
            RowOptimizer(softmax.bias.data, optimizer),
        )
        self._rows: SoftmaxRows | None = None
        self._weight, self._bias = torch.zeros(0), torch.zeros(0)

    def dense_parameters(self) -> list[nn.Parameter]:
        """Return an empty list."""
        return []

    def draw(self, step: int, targets: NDArray[np.int64], multiple: int = 1) -> SoftmaxRows:
        """Sample candidates for both directions and return all rows used in a step, from 0.

        The targets are those of all processes. The number of rows is padded to a multiple of
        `multiple` with rows that are not updated. If larger than 1, it is also padded to the
        largest number so far, so that shapes rarely change.
        """
        n_words = self.softmax.out_features
        candidates = [
            draw_candidates(self.n_samples, n_words, (self.seed, step, side)) for side in (0, 1)
        ]
        is_used = np.zeros(n_words, dtype=np.bool_)
        is_used[targets] = True
        for direction in candidates:
            is_used[direction.ids] = True
        n_used = int(np.count_nonzero(is_used))
        n_padded = n_used + -n_used % multiple
        if multiple > 1:
            n_padded = self._n_padded = max(self._n_padded, n_padded)
        n_missing = min(n_padded, n_words) - n_used
        is_listed = is_used.copy()
        is_listed[np.flatnonzero(~is_used[: n_used + n_missing])[:n_missing]] = True
        ids = np.flatnonzero(is_listed)
        fields = (
            ids,
            is_used[ids].astype(np.int64),
            np.stack([direction.ids for direction in candidates]),
            np.array([direction.n_tries for direction in candidates]),
        )
        return SoftmaxRows(*map(torch.from_numpy, fields))

    @property
    def rows(self) -> SoftmaxRows:
        """The rows used in the current step."""
        assert self._rows is not None
        return self._rows

    def begin(self, rows: SoftmaxRows | None) -> None:
        """Copy the rows used in the step out of the softmax table."""
        assert rows is not None
        self._rows = rows
        self._weight = self.softmax.weight.detach()[rows.ids].requires_grad_()
        self._bias = self.softmax.bias.detach()[rows.ids].requires_grad_()

    def mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Return the mean sampled softmax loss of the targets in one direction."""
        if self.kernel == "reference" or not sampled_fused.can_run(hidden, self.n_samples):
            return self.losses(hidden, targets, side).mean()
        hidden = hidden.to(product_dtype(hidden))
        return sampled_fused.mean_loss(
            hidden, weight=self._weight, bias=self._bias, **self._row_positions(targets, side)
        )

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Return the sampled softmax loss of each target in one direction, of shape (targets,)."""
        return sampled_losses(self.logits(hidden, targets, side))

    def logits(
        self,
        hidden: Tensor,
        targets: Tensor,
        side: int,
        table: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the corrected logits of the targets and of the candidates in one direction.

        With a `table`, they are those of another softmax, given its weights and biases for the ids
        of `rows`. The results are those of `sampled_logits`.
        """
        weight, bias = (self._weight, self._bias) if table is None else table
        return sampled_logits(hidden, **self._classes(targets, side, weight, bias))

    def _classes(
        self, targets: Tensor, side: int, weight: Tensor, bias: Tensor
    ) -> dict[str, Tensor]:
        """Return the arguments of `sampled_logits`, given the rows used in the step."""
        positions = self._row_positions(targets, side)
        true_rows, sampled_rows = positions.pop("true_rows"), positions.pop("sampled_rows")
        bias = bias.unsqueeze(1)
        return {
            # Not by indexing, whose gradient is summed in a nondeterministic order.
            "true_weight": functional.embedding(true_rows, weight),
            "true_bias": functional.embedding(true_rows, bias).squeeze(1),
            "sampled_weight": functional.embedding(sampled_rows, weight),
            "sampled_bias": functional.embedding(sampled_rows, bias).squeeze(1),
            **positions,
        }

    def _row_positions(self, targets: Tensor, side: int) -> dict[str, Tensor]:
        """Return the indices of targets and candidates among the rows, and log expected counts."""
        ids, n_words = self.rows.ids, self.softmax.out_features
        sampled, n_tries = self.rows.sampled[side], self.rows.n_tries[side]
        return {
            "true_rows": torch.searchsorted(ids, targets),
            "true_log_expected": log_expected_count(targets, n_words, n_tries),
            "sampled_rows": torch.searchsorted(ids, sampled),
            "sampled_log_expected": log_expected_count(sampled, n_words, n_tries),
            "targets": targets,
            "sampled": sampled,
        }

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients of the rows over all processes."""
        if fabric.world_size == 1:
            return
        for gradient in self.gradients():
            average(gradient, fabric)

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the rows used in the step."""
        return [value.grad for value in (self._weight, self._bias) if value.grad is not None]

    def update(self, rate: float | Tensor) -> None:
        """Update the rows used in the step."""
        for optimizer, gradient in zip(self._optimizers, self.gradients(), strict=True):
            optimizer.step(self.rows.ids, gradient, rate, self.rows.valid)

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Return the row optimizers of the weights and the bias."""
        return self._optimizers


SoftmaxHead = ExactSoftmaxHead | SampledSoftmaxHead
