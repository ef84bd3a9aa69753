"""The softmax in training: what a step computes, exchanges between processes and updates of it.

A head is kept outside the module that is wrapped for data parallelism, since the rows of a big
table that a step has touched are all that needs to be sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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
    sampled_losses,
)
from elmo.train.optim import RowOptimizer

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def average(value: Tensor, fabric: "Fabric") -> None:
    """Put the mean over all processes in place of a tensor."""
    mean = fabric.all_reduce(value, reduce_op="mean")
    assert isinstance(mean, Tensor)
    value.copy_(mean)


def all_gather(value: Tensor, fabric: "Fabric") -> list[Tensor]:
    """Give the tensors of all processes, which have the same shape."""
    parts = [torch.empty_like(value) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(parts, value.contiguous())
    return parts


@dataclass(frozen=True)
class DrawnRows:
    """What a step will touch of a big softmax, found out on the host; all integers.

    Attributes:
        ids: row numbers, rising, (rows,): candidates, targets, and some more to fill up.
        valid: 0 for those more, else 1, (rows,).
        sampled: word ids of the candidates of both directions, (2, candidates).
        n_tries: draws it took to find them, (2,).
    """

    ids: NDArray[np.int64]
    valid: NDArray[np.int64]
    sampled: NDArray[np.int64]
    n_tries: NDArray[np.int64]


@dataclass(frozen=True)
class StepRows:
    """The same on the device."""

    ids: Tensor
    valid: Tensor
    sampled: Tensor
    n_tries: Tensor


class SoftmaxHead(Protocol):
    """What the learner asks of a softmax."""

    def dense_parameters(self) -> list[nn.Parameter]:
        """Weights that the general optimiser moves."""

    def draw(self, step: int, targets: NDArray[np.int64], multiple: int = 1) -> DrawnRows | None:
        """Find out what a step will touch, told its targets; on the host and ahead of the step."""

    def begin(self, rows: StepRows | None) -> None:
        """Take out what a step will touch."""

    def mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the mean loss of predictions of a direction."""

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients over the processes."""

    def gradients(self) -> list[Tensor]:
        """Give the gradients, to be scaled in place."""

    def update(self, rate: float | Tensor) -> None:
        """Move what the general optimiser does not."""

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give the optimisers that `update` uses, for checkpoints."""


class ExactSoftmaxHead:
    """All words, in one softmax or in clusters."""

    def __init__(self, softmax: Softmax, tied_to: nn.Embedding | None = None) -> None:
        """Take a softmax.

        Args:
            softmax: of the model.
            tied_to: a table of input words whose rows after the first are the softmax's rows.
        """
        self.softmax = softmax
        self.tied_to = tied_to

    def dense_parameters(self) -> list[nn.Parameter]:
        """Give all of the softmax, or its bias where the rest is the input's."""
        if self.tied_to is not None:
            assert isinstance(self.softmax, nn.Linear)
            return [self.softmax.bias]
        return list(self.softmax.parameters())

    def draw(self, step: int, targets: NDArray[np.int64], multiple: int = 1) -> DrawnRows | None:
        """Touch everything."""
        return None

    def begin(self, rows: StepRows | None) -> None:
        """Prepare nothing."""

    def mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the mean of the losses."""
        return self.losses(hidden, targets, side).mean()

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give -ln p of each target."""
        if self.tied_to is None:
            return exact_losses(self.softmax, hidden, targets)
        assert isinstance(self.softmax, nn.Linear)
        return full_losses(hidden, self.tied_to.weight[1:], self.softmax.bias, targets)

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients; a cluster without a target in this process counts as zero."""
        if fabric.world_size == 1:
            return
        for value in self.dense_parameters():
            if value.grad is None:
                value.grad = torch.zeros_like(value)
            average(value.grad, fabric)

    def gradients(self) -> list[Tensor]:
        """Give the gradients there are."""
        return [value.grad for value in self.dense_parameters() if value.grad is not None]

    def update(self, rate: float | Tensor) -> None:
        """Leave everything to the general optimiser."""

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give none."""
        return ()


class SampledSoftmaxHead:
    """Candidates and targets alone; no other row of the table is touched.

    The same candidates are drawn in every process, and the targets of all of them are all_gather, so
    that all work on the same rows and their gradients can be averaged as they are.
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
        """Take a softmax.

        Args:
            softmax: of the model.
            loss: how many candidates.
            optimizer: how its rows move.
            seed: of the candidates.
            kernel: reference for the plain loss.
        """
        n_words = softmax.out_features
        if loss.n_samples >= n_words:
            raise ConfigError(
                f"n_samples is {loss.n_samples}, the vocabulary has {n_words} words: draw fewer, "
                "or take --softmax full"
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
        self._rows: StepRows | None = None
        self._weight, self._bias = torch.zeros(0), torch.zeros(0)

    def dense_parameters(self) -> list[nn.Parameter]:
        """Give none."""
        return []

    def draw(self, step: int, targets: NDArray[np.int64], multiple: int = 1) -> DrawnRows:
        """Draw the candidates of both directions, and list the rows of the step.

        Args:
            step: from 0.
            targets: word ids of all processes, in any shape.
            multiple: fill the rows up to a multiple of this, with rows that will not move; above 1
                also to as many as there were before, so that sizes hardly ever change.
        """
        n_words = self.softmax.out_features
        found = [
            draw_candidates(self.n_samples, n_words, (self.seed, step, side)) for side in (0, 1)
        ]
        is_real = np.zeros(n_words, dtype=np.bool_)
        is_real[targets] = True
        for one in found:
            is_real[one.ids] = True
        n_real = int(np.count_nonzero(is_real))
        n_wanted = n_real + -n_real % multiple
        if multiple > 1:
            n_wanted = self._n_padded = max(self._n_padded, n_wanted)
        n_missing = min(n_wanted, n_words) - n_real
        is_listed = is_real.copy()
        is_listed[np.flatnonzero(~is_real[: n_real + n_missing])[:n_missing]] = True
        ids = np.flatnonzero(is_listed)
        return DrawnRows(
            ids,
            is_real[ids].astype(np.int64),
            np.stack([one.ids for one in found]),
            np.array([one.n_tries for one in found]),
        )

    def begin(self, rows: StepRows | None) -> None:
        """Take out the rows of the step."""
        assert rows is not None
        self._rows = rows
        self._weight = self.softmax.weight.detach()[rows.ids].requires_grad_()
        self._bias = self.softmax.bias.detach()[rows.ids].requires_grad_()

    def mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the mean loss of targets against the candidates of their direction."""
        if self.kernel == "reference" or not sampled_fused.can_run(hidden, self.n_samples):
            return self.losses(hidden, targets, side).mean()
        hidden = hidden.to(product_dtype(hidden))
        return sampled_fused.mean_loss(
            hidden, weight=self._weight, bias=self._bias, **self._row_positions(targets, side)
        )

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the loss of each target against the candidates of its direction."""
        places = self._row_positions(targets, side)
        true_rows, sampled_rows = places.pop("true_rows"), places.pop("sampled_rows")
        bias = self._bias.unsqueeze(1)
        return sampled_losses(
            hidden,
            # Not by indexing: the order in which its gradient adds up is not always the same.
            true_weight=functional.embedding(true_rows, self._weight),
            true_bias=functional.embedding(true_rows, bias).squeeze(1),
            sampled_weight=functional.embedding(sampled_rows, self._weight),
            sampled_bias=functional.embedding(sampled_rows, bias).squeeze(1),
            **places,
        )

    def _row_positions(self, targets: Tensor, side: int) -> dict[str, Tensor]:
        """Give where targets and candidates stand among the rows, and how likely they were."""
        assert self._rows is not None
        ids, n_words = self._rows.ids, self.softmax.out_features
        sampled, n_tries = self._rows.sampled[side], self._rows.n_tries[side]
        return {
            "true_rows": torch.searchsorted(ids, targets),
            "true_log_expected": log_expected_count(targets, n_words, n_tries),
            "sampled_rows": torch.searchsorted(ids, sampled),
            "sampled_log_expected": log_expected_count(sampled, n_words, n_tries),
            "targets": targets,
            "sampled": sampled,
        }

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients of the step's rows."""
        if fabric.world_size == 1:
            return
        for gradient in self.gradients():
            average(gradient, fabric)

    def gradients(self) -> list[Tensor]:
        """Give the gradients of the step's rows."""
        return [value.grad for value in (self._weight, self._bias) if value.grad is not None]

    def update(self, rate: float | Tensor) -> None:
        """Move the step's rows."""
        assert self._rows is not None
        for optimizer, gradient in zip(self._optimizers, self.gradients(), strict=True):
            optimizer.step(self._rows.ids, gradient, rate, self._rows.valid)

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give those of weights and bias."""
        return self._optimizers
