"""The end of a model for pairs of texts: they are aligned word by word, and what follows is read.

After Chen et al. (2017), "Enhanced LSTM for Natural Language Inference": soft alignment, the
difference and the product of a word and its counterpart, a second BiLSTM, mean and maximum.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.encoder import TaskEncoder
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_model import EncodedTexts


class SentencePairHead(nn.Module):
    """One label for two texts."""

    def __init__(self, *, dim: int, n_labels: int, config: TaskEncoderConfig) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            n_labels: labels to choose from.
            config: dials of the first BiLSTM, which the second one shares, but for its depth.
        """
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
        """Map two texts, (batch, time, dim) each, to logits, (batch, labels)."""
        (first, of_first, _), (second, of_second, _) = groups
        # (batch, words of the first, words of the second)
        likeness = first @ second.transpose(1, 2)
        pooled = [
            *self._read(first, of_first, attended(likeness, second, of_second.mask)),
            *self._read(second, of_second, attended(likeness.mT, first, of_first.mask)),
        ]
        x = self.dropout(torch.cat(pooled, dim=1))
        logits: Tensor = self.out(self.dropout(self.hidden(x).tanh()))
        return logits

    def _read(self, x: Tensor, layout: PackedBatch, other: Tensor) -> tuple[Tensor, Tensor]:
        """Give mean and maximum over a text of what its words and their counterparts say."""
        joined = self.join(torch.cat([x, other, x - other, x * other], dim=2)).relu()
        padding = ~layout.mask.unsqueeze(2)
        found = self.compose(joined.masked_fill(padding, 0.0), layout, None)
        mean = found.masked_fill(padding, 0.0).sum(dim=1) / layout.mask.sum(dim=1, keepdim=True)
        return mean, found.masked_fill(padding, -torch.inf).amax(dim=1)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give the mean of -ln p of the right labels, (batch,)."""
        return functional.cross_entropy(self(groups).float(), targets)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[float]]:
        """Give the probability of each label, for each pair."""
        found: list[list[float]] = self(groups).float().softmax(dim=1).tolist()
        return found


def attended(likeness: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Give for each word of a text what the words of another come to, by their likeness to it.

    Args:
        likeness: (batch, words, words of the other).
        other: (batch, words of the other, dim).
        mask: true at words of the other, (batch, words of the other).
    """
    shares = likeness.float().masked_fill(~mask.unsqueeze(1), -torch.inf).softmax(dim=2)
    return shares.to(other.dtype) @ other
