"""Character n-grams of whole texts: hashed bags of n-grams and a linear classifier over them.

The classifier complements the LSTM: n-grams memorize which strings occur with a label. Each has its
own loss, because with a common loss the n-grams would explain the training examples and the LSTM
would learn little; only their predictions are combined.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.kernels.device import to_device
from elmo.tasks.frozen_layers import Words

# L2 norm of a bag: with it, logits grow as fast as with TF-IDF features at usual learning rates.
LENGTH = 10.0
# Multipliers of two hash functions: a polynomial rolling hash, and a finalizer that mixes the bits.
_STEP, _SCATTER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True)
class NgramBags:
    """Bags of character n-grams of several texts.

    Attributes:
        rows: Bucket of each n-gram, grouped by text, (n-grams,).
        starts: Index of the first n-gram of each text, (texts,).
        weights: Weight of each n-gram: 1 + ln(count), normalized so that each bag has the L2 norm
            `LENGTH`, (n-grams,).
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor

    @classmethod
    def from_texts(cls, texts: Sequence[Words], max_ngram: int, n_buckets: int) -> "NgramBags":
        """Extract the n-grams of texts, including spaces between words and at both ends.

        Args:
            texts: Words of each text.
            max_ngram: Maximum length of an n-gram in characters.
            n_buckets: Number of buckets that n-grams are hashed into.
        """
        codes_by_text = [_codes(f" {' '.join(text)} ") for text in texts]
        codes = np.concatenate(codes_by_text)
        sizes = np.array([len(text_codes) for text_codes in codes_by_text])
        text_of_code = np.repeat(np.arange(len(texts)), sizes)
        # Characters to the end of the text: the maximum length of an n-gram that starts here.
        n_left = sizes.cumsum()[text_of_code] - np.arange(len(codes))
        keys = []
        hashes = np.zeros(len(codes), dtype=np.uint64)
        for n in range(1, max_ngram + 1):
            hashes = hashes * _STEP + np.roll(codes, 1 - n) + np.uint64(n)
            fits = n_left >= n
            keys.append(text_of_code[fits] * n_buckets + _bucket(hashes[fits], n_buckets))
        distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
        text_of_ngram, rows = np.divmod(distinct, n_buckets)
        weights = 1 + np.log(counts)
        weights *= LENGTH / np.sqrt(np.bincount(text_of_ngram, weights**2))[text_of_ngram]
        n_distinct = np.bincount(text_of_ngram)
        return cls(
            torch.from_numpy(rows),
            torch.from_numpy(n_distinct.cumsum() - n_distinct),
            torch.from_numpy(weights.astype(np.float32)),
        )

    def to(self, device: torch.device) -> "NgramBags":
        """Return a copy on a device."""
        return NgramBags(
            *(to_device(tensor, device) for tensor in (self.rows, self.starts, self.weights))
        )


def _codes(text: str) -> NDArray[np.uint64]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def _bucket(hashes: NDArray[np.uint64], n_buckets: int) -> NDArray[np.int64]:
    mixed = (hashes ^ (hashes >> np.uint64(31))) * _SCATTER
    mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(n_buckets)).astype(np.int64)


class NgramClassifier(nn.Module):
    """Linear map from bags of n-grams to logits of labels."""

    def __init__(self, n_labels: int, n_buckets: int) -> None:
        """Initialize all weights with zero.

        Args:
            n_labels: Number of labels.
            n_buckets: Number of buckets that n-grams are hashed into.
        """
        super().__init__()
        self.table = nn.Parameter(torch.zeros(n_buckets, n_labels))
        self.bias = nn.Parameter(torch.zeros(n_labels))

    def forward(self, bags: NgramBags) -> Tensor:
        """Return logits, (texts, labels)."""
        with torch.autocast(self.table.device.type, enabled=False):
            sums = functional.embedding_bag(
                bags.rows, self.table, bags.starts, mode="sum", per_sample_weights=bags.weights
            )
            return sums + self.bias
