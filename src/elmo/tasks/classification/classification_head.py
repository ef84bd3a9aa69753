"""Head that predicts one label per text."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.tasks.core.char_ngrams import NgramClassifier
from elmo.tasks.core.task_model import EncodedTexts


class ClassificationHead(nn.Module):
    """Predicts one label per text with attention, max and mean pooling and two linear layers.

    If a character n-gram classifier is used, the two models have separate losses, and predictions
    are the average of their log probabilities.
    """

    def __init__(self, *, dim: int, n_labels: int, dropout: float, ngram_buckets: int = 0) -> None:
        """Create the layers; `ngram_buckets` = 0 disables the character n-gram classifier."""
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.hidden = nn.Linear(3 * dim, dim)
        self.out = nn.Linear(dim, n_labels)
        self.dropout = nn.Dropout(dropout)
        self.vote = NgramClassifier(n_labels, ngram_buckets) if ngram_buckets else None

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map word vectors, (batch, time, dim), to logits, (batch, labels)."""
        padding = ~mask.unsqueeze(2)
        weights = self.attention(x).masked_fill(padding, -torch.inf).softmax(dim=1)
        attended = (weights * x).sum(dim=1)
        maximum = x.masked_fill(padding, -torch.inf).amax(dim=1)
        mean = x.masked_fill(padding, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        pooled = torch.cat([attended, maximum, mean], dim=1)
        logits: Tensor = self.out(self.dropout(self.hidden(self.dropout(pooled)).relu()))
        return logits

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean cross entropy, plus that of the n-gram classifier if used."""
        losses = [functional.cross_entropy(logits, targets) for logits in self._logits(groups)]
        return torch.stack(losses).sum()

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[float]]:
        """Return the label probabilities of each text."""
        log_probabilities = [logits.log_softmax(dim=1) for logits in self._logits(groups)]
        mean = torch.stack(log_probabilities).mean(dim=0)
        probabilities: list[list[float]] = mean.softmax(dim=1).tolist()
        return probabilities

    def _logits(self, groups: Sequence[EncodedTexts]) -> list[Tensor]:
        """Return the logits of the head and, if used, of the n-gram classifier."""
        ((x, layout, char_ngrams),) = groups
        logits: list[Tensor] = [self(x, layout.mask).float()]
        if self.vote is not None:
            assert char_ngrams is not None
            logits.append(self.vote(char_ngrams))
        return logits
