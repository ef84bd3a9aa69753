"""Hashed bags of character n-grams, and a linear text classifier over them.

The classifier complements the LSTM by memorizing which strings occur with which label. The two
models have separate losses, and only their predictions are combined. With a joint loss, the n-grams
would suffice to fit the training examples, and the LSTM would learn little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.kernels.device import to_device
from elmo.tasks.core.example import Words

# L2 norm of a bag, chosen so that training with usual learning rates is as fast as with TF-IDF
# features.
LENGTH = 10.0
# Multipliers of the polynomial rolling hash and of the final step that mixes its bits.
_STEP, _SCATTER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class CharNgrams(NamedTuple):
    """Which character n-grams a head uses: maximum length, and number of hash buckets."""

    max_ngram: int
    n_buckets: int


@dataclass(frozen=True)
class NgramBags:
    """Bags of character n-grams, one per text.

    `rows` are the hash buckets of the distinct n-grams, grouped by text, (n-grams,), and `starts`
    the indices of the first n-gram of each text, (texts,). The weights, (n-grams,), are 1 +
    ln(count), scaled so that those of each text have the L2 norm `LENGTH`.
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor

    @classmethod
    def from_texts(cls, texts: Sequence[Words], max_ngram: int, n_buckets: int) -> "NgramBags":
        """Extract the n-grams of texts. Words are joined by spaces, with a space at both ends."""
        codes_by_text = [_codes(f" {' '.join(text)} ") for text in texts]
        codes = np.concatenate(codes_by_text)
        sizes = np.array([len(text_codes) for text_codes in codes_by_text])
        text_of_code = np.repeat(np.arange(len(texts)), sizes)
        # Number of characters from here to the end of the text, which limits the n-gram length.
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
        """Return a copy on the given device."""
        return NgramBags(
            *(to_device(tensor, device) for tensor in (self.rows, self.starts, self.weights))
        )


def _codes(text: str) -> NDArray[np.uint64]:
    """Return the Unicode code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def _bucket(hashes: NDArray[np.uint64], n_buckets: int) -> NDArray[np.int64]:
    mixed = (hashes ^ (hashes >> np.uint64(31))) * _SCATTER
    mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(n_buckets)).astype(np.int64)


class NgramClassifier(nn.Module):
    """Linear classifier over bags of character n-grams."""

    def __init__(self, n_labels: int, n_buckets: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(n_buckets, n_labels))
        self.bias = nn.Parameter(torch.zeros(n_labels))

    def forward(self, bags: NgramBags) -> Tensor:
        """Return the label logits, (texts, labels)."""
        with torch.autocast(self.table.device.type, enabled=False):
            sums = functional.embedding_bag(
                bags.rows, self.table, bags.starts, mode="sum", per_sample_weights=bags.weights
            )
            return sums + self.bias
