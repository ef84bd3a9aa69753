"""Character n-grams of whole texts: a bag of numbers, and what a linear map over them votes for.

An LSTM knows what a text means, a bag of n-grams remembers what stood in texts of a label. Each
learns by its own loss, since a bag that may explain the examples away leaves the LSTM nothing to
learn; only their answers are put together.
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

# Length of the vector of a bag: scores grow as fast as with TF-IDF at the usual rates.
LENGTH = 10.0
# Of two hash functions, one to make a number of many, one to scatter numbers over all bits.
_STEP, _SCATTER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True)
class NgramBags:
    """The n-grams of texts.

    Attributes:
        rows: of the table, those of a text side by side, (n-grams,).
        starts: where those of each text begin, (texts,).
        weights: of each, so that the bag of a text has a fixed length; one that stands there often
            counts by the logarithm of how often, (n-grams,).
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor

    @classmethod
    def from_texts(cls, texts: Sequence[Words], longest: int, n_rows: int) -> "NgramBags":
        """Take the distinct n-grams of texts, blanks between words and at both ends included.

        Args:
            texts: their words.
            longest: characters of an n-gram at most.
            n_rows: of the table that they are hashed into.
        """
        spelled = [_codes(f" {' '.join(text)} ") for text in texts]
        codes = np.concatenate(spelled)
        sizes = np.array([len(one) for one in spelled])
        owners = np.repeat(np.arange(len(texts)), sizes)
        # Characters from a place to the end of its text: as long an n-gram may begin there.
        left = sizes.cumsum()[owners] - np.arange(len(codes))
        places = []
        known = np.zeros(len(codes), dtype=np.uint64)
        for n in range(1, longest + 1):
            known = known * _STEP + np.roll(codes, 1 - n) + np.uint64(n)
            fits = left >= n
            places.append(owners[fits] * n_rows + _row(known[fits], n_rows))
        found, times = np.unique(np.concatenate(places), return_counts=True)
        of_text, rows = np.divmod(found, n_rows)
        weights = 1 + np.log(times)
        weights *= LENGTH / np.sqrt(np.bincount(of_text, weights**2))[of_text]
        counts = np.bincount(of_text)
        return cls(
            torch.from_numpy(rows),
            torch.from_numpy(counts.cumsum() - counts),
            torch.from_numpy(weights.astype(np.float32)),
        )

    def to(self, device: torch.device) -> "NgramBags":
        """Move everything."""
        return NgramBags(
            *(to_device(one, device) for one in (self.rows, self.starts, self.weights))
        )


def _codes(text: str) -> NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def _row(hashes: NDArray[np.uint64], n_rows: int) -> NDArray[np.int64]:
    mixed = (hashes ^ (hashes >> np.uint64(31))) * _SCATTER
    mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(n_rows)).astype(np.int64)


class NgramClassifier(nn.Module):
    """Bags of n-grams to scores of labels: a linear map."""

    def __init__(self, n_labels: int, n_rows: int) -> None:
        """Make one that knows nothing yet.

        Args:
            n_labels: labels to vote for.
            n_rows: that n-grams are hashed into.
        """
        super().__init__()
        self.table = nn.Parameter(torch.zeros(n_rows, n_labels))
        self.bias = nn.Parameter(torch.zeros(n_labels))

    def forward(self, bags: NgramBags) -> Tensor:
        """Give logits, (texts, labels)."""
        with torch.autocast(self.table.device.type, enabled=False):
            found = functional.embedding_bag(
                bags.rows, self.table, bags.starts, mode="sum", per_sample_weights=bags.weights
            )
            return found + self.bias
