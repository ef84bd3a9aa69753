"""One label for a text, or one for each of its words: vectors to a loss, and to an answer."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.tasks.char_ngrams import NgramClassifier
from elmo.tasks.heads.crf import CRF
from elmo.tasks.task_model import EncodedTexts


class ClassificationHead(nn.Module):
    """One label for a text: what it holds by attention, at most and on average, then two layers.

    Where n-grams vote too, the answer is the mean of both log probabilities.
    """

    def __init__(self, *, dim: int, n_labels: int, dropout: float, ngram_buckets: int = 0) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            n_labels: labels to choose from.
            dropout: between the two layers.
            ngram_buckets: rows of the table by which n-grams of the text vote; 0 where they do not.
        """
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.hidden = nn.Linear(3 * dim, dim)
        self.out = nn.Linear(dim, n_labels)
        self.dropout = nn.Dropout(dropout)
        self.vote = NgramClassifier(n_labels, ngram_buckets) if ngram_buckets else None

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map (batch, time, dim) to logits, (batch, labels)."""
        padding = ~mask.unsqueeze(2)
        shares = self.attention(x).masked_fill(padding, -torch.inf).softmax(dim=1)
        attended = (shares * x).sum(dim=1)
        largest = x.masked_fill(padding, -torch.inf).amax(dim=1)
        mean = x.masked_fill(padding, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        pooled = torch.cat([attended, largest, mean], dim=1)
        logits: Tensor = self.out(self.dropout(self.hidden(self.dropout(pooled)).relu()))
        return logits

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give the mean of -ln p of the right labels, (batch,); the sum of both where two learn."""
        each = [functional.cross_entropy(logits, targets) for logits in self._logits(groups)]
        return torch.stack(each).sum()

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[float]]:
        """Give the probability of each label, for each text."""
        each = [logits.log_softmax(dim=1) for logits in self._logits(groups)]
        found: list[list[float]] = torch.stack(each).mean(dim=0).softmax(dim=1).tolist()
        return found

    def _logits(self, groups: Sequence[EncodedTexts]) -> list[Tensor]:
        ((x, layout, char_ngrams),) = groups
        found: list[Tensor] = [self(x, layout.mask).float()]
        if self.vote is not None:
            assert char_ngrams is not None
            found.append(self.vote(char_ngrams))
        return found


class TaggingHead(nn.Module):
    """A tag for each word: a linear map under a conditional random field."""

    def __init__(
        self, *, dim: int, n_tags: int, allowed: tuple[Tensor, Tensor, Tensor] | None
    ) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            n_tags: tags to choose from.
            allowed: which tags may begin, follow each other, and end; None for all.
        """
        super().__init__()
        self.out = nn.Linear(dim, n_tags)
        self.crf = CRF(n_tags, allowed)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give -ln p of the right sequences by word, so that long texts do not weigh on the rate.

        Args:
            groups: the only one.
            targets: numbers of tags, (batch, time).
        """
        ((x, layout, _),) = groups
        n_words = len(layout.positions)
        loss = self.crf.loss(self._emissions(x), targets, layout.mask)
        return loss * len(layout.mask) / n_words

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[int]]:
        """Give the likeliest sequence of tags for each text."""
        ((x, layout, _),) = groups
        return self.crf.decode(self._emissions(x), layout.mask)

    def _emissions(self, x: Tensor) -> Tensor:
        """Give the scores of tags; sums over a text want more digits than half precision has."""
        with torch.autocast(x.device.type, enabled=False):
            found: Tensor = self.out(x.float())
        return found


class SoftmaxTaggingHead(nn.Module):
    """A tag for each word by itself: a linear map and a softmax, all that a probe may have."""

    def __init__(self, *, dim: int, n_tags: int) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            n_tags: tags to choose from.
        """
        super().__init__()
        self.out = nn.Linear(dim, n_tags)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give the mean of -ln p of the right tags, (batch, time), over all words."""
        ((x, layout, _),) = groups
        words, right = (part.flatten(0, 1)[layout.positions] for part in (self.out(x), targets))
        return functional.cross_entropy(words.float(), right)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[int]]:
        """Give the likeliest tag of each word."""
        ((x, layout, _),) = groups
        best = self.out(x).argmax(dim=2)
        return [row[own].tolist() for row, own in zip(best, layout.mask, strict=True)]


def pad_tags(tags: Sequence[Sequence[int]], n_steps: int) -> Tensor:
    """Put sequences of tags under each other, 0 at padding."""
    found = np.zeros((len(tags), n_steps), dtype=np.int64)
    for row, one in zip(found, tags, strict=True):
        row[: len(one)] = one
    return torch.from_numpy(found)
