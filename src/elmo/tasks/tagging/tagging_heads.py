"""Heads that predict one tag per word."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.tagging.crf import CRF


class TaggingHead(nn.Module):
    """Predicts one tag per word with a linear layer and a conditional random field (CRF)."""

    def __init__(
        self, *, dim: int, n_tags: int, allowed: tuple[Tensor, Tensor, Tensor] | None
    ) -> None:
        """Create the layers; `allowed` are masks of `allowed_transitions`, None for no limits."""
        super().__init__()
        self.out = nn.Linear(dim, n_tags)
        self.crf = CRF(n_tags, allowed)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the negative log likelihood of the tag sequences, divided by the number of words.

        Averaging over words instead of texts makes the loss independent of the text length. The
        only group contains all texts; the targets are tag indices, (batch, time).
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
        super().__init__()
        self.out = nn.Linear(dim, n_tags)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean cross entropy over all words; targets are tag indices, (batch, time)."""
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
