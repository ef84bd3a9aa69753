"""The model of a task: what a word is known by, the model's own layers, and a head."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from elmo.model.layer_mix import LayerMix
from elmo.tasks.char_ngrams import NgramBags
from elmo.tasks.encoder import TaskEncoder
from elmo.tasks.input_features import TokenBatch, TokenInput
from elmo.tasks.packed_batch import PackedBatch


class Texts(NamedTuple):
    """What a head reads of a group of texts.

    Attributes:
        vectors: of their words, (texts, time, dim).
        layout: where these stand.
        char_ngrams: n-grams of each text; None where the model does not read them.
    """

    vectors: Tensor
    layout: PackedBatch
    char_ngrams: NgramBags | None = None


class TaskHead(Protocol):
    """What a model needs of its end; an `nn.Module` too."""

    def loss(self, groups: Sequence[Texts], targets: Tensor) -> Tensor:
        """Give a loss to go down, a mean in which examples count what the kind says."""

    def answers(self, groups: Sequence[Texts]) -> list[Any]:
        """Give what is found in each example, in numbers."""


class TaskModel(nn.Module):
    """Batches of words to losses and answers."""

    def __init__(
        self, *, tokens: TokenInput, body: TaskEncoder, head: TaskHead, mix_penalty: float
    ) -> None:
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
        """Give what the head reads of a group of texts, (batch, time, dim)."""
        x, layers = self.tokens(batch)
        found: Tensor = self.body(x, batch.layout, layers)
        return found

    def loss(self, groups: Sequence[TokenBatch], targets: Tensor) -> Tensor:
        """Give the loss of a batch, the penalty of its mixes included."""
        loss = self.head.loss(self._texts(groups), targets)
        for _, mix in self.mixes():
            loss = loss + self.mix_penalty * mix.l2()
        return loss

    def answers(self, groups: Sequence[TokenBatch]) -> list[Any]:
        """Give what is found in each example, in numbers."""
        return self.head.answers(self._texts(groups))

    def _texts(self, groups: Sequence[TokenBatch]) -> list[Texts]:
        return [Texts(self.vectors(group), group.layout, group.char_ngrams) for group in groups]

    def mixes(self) -> Iterator[tuple[str, LayerMix]]:
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
