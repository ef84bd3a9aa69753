"""Heads that predict one label per text or one tag per word."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.tasks.char_ngrams import NgramClassifier
from elmo.tasks.heads.crf import CRF
from elmo.tasks.task_model import EncodedTexts


class ClassificationHead(nn.Module):
    """Predicts one label per text with attention, max and mean pooling and two linear layers.

    If a character n-gram classifier is used, the two models have separate losses, and predictions
    are the average of their log probabilities.
    """

    def __init__(self, *, dim: int, n_labels: int, dropout: float, ngram_buckets: int = 0) -> None:
        """Create the layers.

        Args:
            dim: Dimension of the word vectors.
            n_labels: Number of labels.
            dropout: Dropout probability for the pooled vector and the hidden layer.
            ngram_buckets: Number of hash buckets of the character n-gram classifier; 0 disables it.
        """
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
        """Return the mean cross entropy, summed over the head and the n-gram classifier if used.

        Args:
            groups: A single group with all texts.
            targets: Label indices, (batch,).
        """
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


class TaggingHead(nn.Module):
    """Predicts one tag per word with a linear layer and a conditional random field (CRF)."""

    def __init__(
        self, *, dim: int, n_tags: int, allowed: tuple[Tensor, Tensor, Tensor] | None
    ) -> None:
        """Create the layers.

        Args:
            dim: Dimension of the word vectors.
            n_tags: Number of tags.
            allowed: Allowed first tags, transitions and last tags, as returned by
                `spans.allowed_transitions`; None to allow all sequences.
        """
        super().__init__()
        self.out = nn.Linear(dim, n_tags)
        self.crf = CRF(n_tags, allowed)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the negative log likelihood of the tag sequences, divided by the number of words.

        Averaging over words instead of texts makes the loss independent of the text length.

        Args:
            groups: A single group with all texts.
            targets: Tag indices, (batch, time).
        """
        ((x, layout, _),) = groups
        n_words = len(layout.positions)
        loss = self.crf.loss(self._emissions(x), targets, layout.mask)
        return loss * len(layout.mask) / n_words

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[int]]:
        """Return the most likely allowed tag sequence of each text."""
        ((x, layout, _),) = groups
        return self.crf.decode(self._emissions(x), layout.mask)

    def _emissions(self, x: Tensor) -> Tensor:
        """Return the tag scores in float32; half precision is too inexact for sums over a text."""
        with torch.autocast(x.device.type, enabled=False):
            emissions: Tensor = self.out(x.float())
        return emissions


class SoftmaxTaggingHead(nn.Module):
    """Predicts each tag independently with a linear layer and a softmax, e.g. for probing."""

    def __init__(self, *, dim: int, n_tags: int) -> None:
        """Create the layer.

        Args:
            dim: Dimension of the word vectors.
            n_tags: Number of tags.
        """
        super().__init__()
        self.out = nn.Linear(dim, n_tags)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean cross entropy over all words.

        Args:
            groups: A single group with all texts.
            targets: Tag indices, (batch, time).
        """
        ((x, layout, _),) = groups
        logits, tags = (part.flatten(0, 1)[layout.positions] for part in (self.out(x), targets))
        return functional.cross_entropy(logits.float(), tags)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[int]]:
        """Return the most likely tag of each word."""
        ((x, layout, _),) = groups
        best = self.out(x).argmax(dim=2)
        return [row[mask].tolist() for row, mask in zip(best, layout.mask, strict=True)]


def pad_tags(tags: Sequence[Sequence[int]], n_steps: int) -> Tensor:
    """Return tag sequences as a tensor padded with 0, (texts, n_steps)."""
    padded = np.zeros((len(tags), n_steps), dtype=np.int64)
    for row, sequence in zip(padded, tags, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(padded)
