"""The model of a task: what a word is known by, the model's own layers, and a head."""

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor, nn

from elmo.model.scalar_mix import ScalarMix
from elmo.tasks.body import Body
from elmo.tasks.tokens import TokenBatch, TokenInput


class Head(Protocol):
    """What a model needs of its end; an `nn.Module` too."""

    def loss(self, x: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        """Give a loss to go down."""

    def answers(self, x: Tensor, mask: Tensor) -> list[Any]:
        """Give what is found in each text, in numbers."""


class TaskModel(nn.Module):
    """Batches of words to losses and answers."""

    def __init__(self, *, tokens: TokenInput, body: Body, head: Head, mix_penalty: float) -> None:
        """Put the parts together.

        Args:
            tokens: gives the vectors of words.
            body: puts them into their context.
            head: an `nn.Module`.
            mix_penalty: on the squares of the weights of all mixes.
        """
        super().__init__()
        self.tokens = tokens
        self.body = body
        self.head = head
        self.mix_penalty = mix_penalty

    def vectors(self, batch: TokenBatch) -> Tensor:
        """Give what the head reads, (batch, time, dim)."""
        x, layers = self.tokens(batch)
        found: Tensor = self.body(x, batch.mask, layers)
        return found

    def loss(self, batch: TokenBatch, targets: Tensor) -> Tensor:
        """Give the loss of a batch, the penalty of its mixes included."""
        loss = self.head.loss(self.vectors(batch), batch.mask, targets)
        for _, mix in self.mixes():
            loss = loss + self.mix_penalty * mix.l2()
        return loss

    def answers(self, batch: TokenBatch) -> list[Any]:
        """Give what is found in each text, in numbers."""
        return self.head.answers(self.vectors(batch), batch.mask)

    def mixes(self) -> Iterator[tuple[str, ScalarMix]]:
        """Give the mixes of ELMo's layers by their places, input and output."""
        for place, mix in (("input", self.tokens.mix), ("output", self.body.mix)):
            if mix is not None:
                yield place, mix.mix

    def shares(self) -> dict[str, dict[str, Any]]:
        """Give what each mix has learned: the share of each layer, and the scale."""
        return {
            place: {
                "shares": mix.weights.detach().softmax(dim=0).tolist(),
                "gamma": float(mix.gamma.detach()),
            }
            for place, mix in self.mixes()
        }
