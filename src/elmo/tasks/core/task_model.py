"""Task model: input features, task encoder and head."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypedDict, TypeVar

from torch import Tensor, nn

from elmo.model.layer_mix import LayerMix
from elmo.tasks.core.char_ngrams import NgramBags
from elmo.tasks.core.encoder import TaskEncoder
from elmo.tasks.core.input_features import InputFeatures, TokenBatch
from elmo.tasks.core.packed_batch import PackedBatch

Output_co = TypeVar("Output_co", covariant=True)


class EncodedTexts(NamedTuple):
    """Input of a head: word vectors of texts, (texts, time, dim), and n-grams if used."""

    vectors: Tensor
    layout: PackedBatch
    char_ngrams: NgramBags | None = None


class TaskHead(Protocol[Output_co]):
    """Interface of a task head, the last module of a task model."""

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean loss over the examples, weighted as defined by the task."""

    def predict(self, groups: Sequence[EncodedTexts]) -> Sequence[Output_co]:
        """Return one output per example, which the task converts to an answer."""


class MixShares(TypedDict):
    """A learned layer mix: the share of each layer and the scale."""

    shares: list[float]
    gamma: float


class TaskModel(nn.Module):
    """Maps token batches to losses and predictions."""

    def __init__(
        self,
        *,
        features: InputFeatures,
        encoder: TaskEncoder,
        head: TaskHead[object],
        mix_penalty: float,
    ) -> None:
        """Combine the modules; the L2 penalty on all layer mixes has the weight `mix_penalty`."""
        super().__init__()
        self.features = features
        self.encoder = encoder
        self.head = head
        self.mix_penalty = mix_penalty

    def vectors(self, batch: TokenBatch) -> Tensor:
        """Return the contextual word vectors of a group of texts, (batch, time, dim)."""
        x, layers = self.features(batch)
        encoded: Tensor = self.encoder(x, batch.layout, layers)
        return encoded

    def loss(self, groups: Sequence[TokenBatch], targets: Tensor) -> Tensor:
        """Return the loss of a batch, including the penalty on the layer mixes."""
        loss = self.head.loss(self._encode(groups), targets)
        for _, mix in self.mixes():
            loss = loss + self.mix_penalty * mix.l2()
        return loss

    def predict(self, groups: Sequence[TokenBatch]) -> Sequence[object]:
        """Return the head's output for each example."""
        return self.head.predict(self._encode(groups))

    def _encode(self, groups: Sequence[TokenBatch]) -> list[EncodedTexts]:
        return [
            EncodedTexts(self.vectors(group), group.layout, group.char_ngrams) for group in groups
        ]

    def mixes(self) -> Iterator[tuple[str, LayerMix]]:
        """Yield each layer mix with its placement ("input" or "output")."""
        for placement, mix in (("input", self.features.mix), ("output", self.encoder.mix)):
            if mix is not None:
                yield placement, mix.mix

    def shares(self) -> dict[str, MixShares]:
        """Return the learned layer shares and the scale gamma of each mix, by placement."""
        return {
            placement: {
                "shares": mix.weights.detach().softmax(dim=0).tolist(),
                "gamma": float(mix.gamma.detach()),
            }
            for placement, mix in self.mixes()
        }
