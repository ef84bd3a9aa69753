"""How texts of different lengths lie in a padded block, and in which order an LSTM reads them.

PyTorch packs a block by a copy for each length and asks the device for the lengths; here the host,
which made the block, says where its words are, and packing is a single look-up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from elmo.kernels.device import to_device


@dataclass(frozen=True)
class PackedBatch:
    """Where the words of a padded block stand.

    Attributes:
        mask: true at words, (texts, time).
        sizes: how many texts have a word at each time, on the host, (time,).
        places: of the words in the block, those of one time side by side, longest texts first.
        numbers: of the texts, by which a head puts those of several blocks in order, (texts,).
    """

    mask: Tensor
    sizes: Tensor
    places: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], numbers: Sequence[int] | None = None) -> "PackedBatch":
        """Lay out texts, each of at least one word, padded on the right to the longest.

        Args:
            lengths: their words.
            numbers: of the texts; counted from 0 where None.
        """
        sizes = np.asarray(lengths)
        longest_first = np.argsort(-sizes, kind="stable")
        mask = np.arange(sizes.max()) < sizes[:, None]
        time, text = np.nonzero(mask[longest_first].T)
        return cls(
            torch.from_numpy(mask),
            torch.from_numpy(mask.sum(axis=0)),
            torch.from_numpy(longest_first[text] * mask.shape[1] + time),
            torch.tensor(range(len(sizes)) if numbers is None else numbers),
        )

    def to(self, device: torch.device) -> "PackedBatch":
        """Move all but what the host is asked for."""
        mask, places, numbers = (
            to_device(one, device) for one in (self.mask, self.places, self.numbers)
        )
        return PackedBatch(mask, self.sizes, places, numbers)

    def pack(self, x: Tensor) -> PackedSequence:
        """Take the words out of a block, (texts, time, dim), in the order of an LSTM."""
        return PackedSequence(x.flatten(0, 1).index_select(0, self.places), self.sizes)

    def unpack(self, packed: PackedSequence) -> Tensor:
        """Put words back into a block, zeros at padding."""
        texts, time = self.mask.shape
        block = packed.data.new_zeros(texts * time, packed.data.shape[1])
        return block.index_copy(0, self.places, packed.data).view(texts, time, -1)
