"""Head for sentence pair classification, based on ESIM.

Chen et al. (2017), "Enhanced LSTM for Natural Language Inference": soft alignment of the words of
both texts, the difference and product of each word vector and its aligned vector, a second BiLSTM,
and mean and max pooling.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.core.encoder import TaskEncoder
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.task_model import EncodedTexts


class SentencePairHead(nn.Module):
    """Predicts one label per pair of texts."""

    def __init__(self, *, dim: int, n_labels: int, config: TaskEncoderConfig) -> None:
        """Create the layers; the second BiLSTM has the options of the encoder and depth 1."""
        super().__init__()
        width = config.hidden or dim
        self.join = nn.Linear(4 * dim, width)
        self.compose = TaskEncoder(
            config=replace(config, depth=1, input_dropout=config.dropout),
            elmo=TaskELMoConfig(model=None),
            input_dim=width,
        )
        self.hidden = nn.Linear(4 * self.compose.dim, width)
        self.out = nn.Linear(width, n_labels)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, groups: Sequence[EncodedTexts]) -> Tensor:
        """Map the vectors of two texts, each (batch, time, dim), to logits, (batch, labels)."""
        (first, first_layout, _), (second, second_layout, _) = groups
        # (batch, words of the first text, words of the second text)
        similarity = first @ second.transpose(1, 2)
        pooled = [
            *self._pool(first, first_layout, attend(similarity, second, second_layout.mask)),
            *self._pool(second, second_layout, attend(similarity.mT, first, first_layout.mask)),
        ]
        x = self.dropout(torch.cat(pooled, dim=1))
        logits: Tensor = self.out(self.dropout(self.hidden(x).tanh()))
        return logits

    def _pool(self, x: Tensor, layout: PackedBatch, aligned: Tensor) -> tuple[Tensor, Tensor]:
        """Combine word vectors with their aligned vectors and pool them over the words.

        `aligned` is the attended vector of the other text for each word. Both are (batch, time,
        dim); mean and maximum are (batch, output size of the second BiLSTM).
        """
        joined = self.join(torch.cat([x, aligned, x - aligned, x * aligned], dim=2)).relu()
        padding = ~layout.mask.unsqueeze(2)
        composed = self.compose(joined.masked_fill(padding, 0.0), layout, None)
        total = composed.masked_fill(padding, 0.0).sum(dim=1)
        mean = total / layout.mask.sum(dim=1, keepdim=True)
        return mean, composed.masked_fill(padding, -torch.inf).amax(dim=1)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean cross entropy; the targets are label indices, (batch,)."""
        return functional.cross_entropy(self(groups).float(), targets)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[float]]:
        """Return the label probabilities of each text pair."""
        probabilities: list[list[float]] = self(groups).float().softmax(dim=1).tolist()
        return probabilities


def attend(similarity: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Return the attention-weighted mean of another text's word vectors for each word of a text.

    The scores are (batch, words, others), the other text (batch, others, dim) with its mask, and
    the attended vectors (batch, words, dim).
    """
    weights = similarity.float().masked_fill(~mask.unsqueeze(1), -torch.inf).softmax(dim=2)
    return weights.to(other.dtype) @ other
