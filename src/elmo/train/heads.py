"""The softmax in training: what a step computes, exchanges between processes and updates of it.

A head is kept outside the module that is wrapped for data parallelism, since the rows of a big
table that a step has touched are all that needs to be sent.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import LossConfig, OptimizerConfig
from elmo.errors import ConfigError
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


def gathered(value: Tensor, fabric: "Fabric") -> list[Tensor]:
    """Give the tensors of all processes, which have the same shape."""
    parts = [torch.empty_like(value) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(parts, value.contiguous())
    return parts


class Head(Protocol):
    """What the learner asks of a softmax."""

    def dense_parameters(self) -> list[nn.Parameter]:
        """Weights that the general optimiser moves."""

    def begin(self, step: int, targets: Tensor) -> None:
        """Prepare for a step, told all targets of this process."""

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the loss of each prediction of a direction, (predictions,)."""

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients over the processes."""

    def gradients(self) -> list[Tensor]:
        """Give the gradients, to be scaled in place."""

    def update(self, rate: float) -> None:
        """Move what the general optimiser does not."""

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give the optimisers that `update` uses, for checkpoints."""


class ExactHead:
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

    def begin(self, step: int, targets: Tensor) -> None:
        """Prepare nothing."""

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

    def update(self, rate: float) -> None:
        """Leave everything to the general optimiser."""

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give none."""
        return ()


class SampledHead:
    """Candidates and targets alone; no other row of the table is touched.

    The same candidates are drawn in every process, and the targets of all of them are gathered, so
    that all work on the same rows and their gradients can be averaged as they are.
    """

    def __init__(
        self,
        softmax: nn.Linear,
        loss: LossConfig,
        optimizer: OptimizerConfig,
        *,
        seed: int,
        fabric: "Fabric",
    ) -> None:
        """Take a softmax.

        Args:
            softmax: of the model.
            loss: how many candidates.
            optimizer: how its rows move.
            seed: of the candidates.
            fabric: the processes.
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
        self.fabric = fabric
        self._optimizers = (
            RowOptimizer(softmax.weight.data, optimizer),
            RowOptimizer(softmax.bias.data, optimizer),
        )
        none = torch.zeros(0)
        self._ids, self._weight, self._bias = none, none, none
        self._sampled: list[tuple[Tensor, int]] = []

    def dense_parameters(self) -> list[nn.Parameter]:
        """Give none."""
        return []

    def begin(self, step: int, targets: Tensor) -> None:
        """Draw the candidates of both directions and take out the rows of the step."""
        device = self.softmax.weight.device
        self._sampled = []
        for side in (0, 1):
            drawn = draw_candidates(
                self.n_samples, self.softmax.out_features, (self.seed, step, side)
            )
            self._sampled.append((torch.from_numpy(drawn.ids).to(device), drawn.n_tries))
        wanted = [ids for ids, _ in self._sampled] + [targets.flatten()]
        if self.fabric.world_size > 1:
            wanted[-1] = torch.cat(gathered(targets, self.fabric)).flatten()
        self._ids = torch.unique(torch.cat(wanted))
        self._weight = self.softmax.weight.detach()[self._ids].requires_grad_()
        self._bias = self.softmax.bias.detach()[self._ids].requires_grad_()

    def losses(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        """Give the loss of each target against the candidates of its direction."""
        sampled, n_tries = self._sampled[side]
        true_rows = torch.searchsorted(self._ids, targets)
        sampled_rows = torch.searchsorted(self._ids, sampled)
        bias = self._bias.unsqueeze(1)
        n_words = self.softmax.out_features
        return sampled_losses(
            hidden,
            # Not by indexing: the order in which its gradient adds up is not always the same.
            true_weight=functional.embedding(true_rows, self._weight),
            true_bias=functional.embedding(true_rows, bias).squeeze(1),
            true_log_expected=log_expected_count(targets, n_words, n_tries),
            sampled_weight=functional.embedding(sampled_rows, self._weight),
            sampled_bias=functional.embedding(sampled_rows, bias).squeeze(1),
            sampled_log_expected=log_expected_count(sampled, n_words, n_tries),
            targets=targets,
            sampled=sampled,
        )

    def exchange(self, fabric: "Fabric") -> None:
        """Average the gradients of the step's rows."""
        if fabric.world_size == 1:
            return
        for gradient in self.gradients():
            average(gradient, fabric)

    def gradients(self) -> list[Tensor]:
        """Give the gradients of the step's rows."""
        return [value.grad for value in (self._weight, self._bias) if value.grad is not None]

    def update(self, rate: float) -> None:
        """Move the step's rows."""
        for optimizer, gradient in zip(self._optimizers, self.gradients(), strict=True):
            optimizer.step(self._ids, gradient, rate)

    def row_optimizers(self) -> Sequence[RowOptimizer]:
        """Give those of weights and bias."""
        return self._optimizers
