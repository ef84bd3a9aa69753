"""Layout of texts with different lengths in a padded batch, and packing for an LSTM.

`torch.nn.utils.rnn.pack_padded_sequence` makes one copy per distinct length and reads the lengths
from the device. Here, the word positions are computed on the CPU when the batch is built, so
packing is a single index operation.
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
    """Positions of the words in a padded batch.

    Attributes:
        mask: True at words, False at padding, (texts, time).
        batch_sizes: Number of texts that have a word at each time step, (time,); always on the CPU.
        positions: Positions of the words in the flattened batch, (words,), ordered by time step and
            then by decreasing text length.
        text_indices: Index of each text in its document, (texts,). A head uses it to restore the
            order of texts that are spread over several batches.
    """

    mask: Tensor
    batch_sizes: Tensor
    positions: Tensor
    text_indices: Tensor

    @classmethod
    def from_lengths(
        cls, lengths: Sequence[int], text_indices: Sequence[int] | None = None
    ) -> "PackedBatch":
        """Create the layout of texts that are padded on the right to the longest text.

        `text_indices` are the indices of the texts in their document. Default: 0, 1, 2, ...
        """
        sizes = np.asarray(lengths)
        longest_first = np.argsort(-sizes, kind="stable")
        mask = np.arange(sizes.max()) < sizes[:, None]
        time, text = np.nonzero(mask[longest_first].T)
        return cls(
            torch.from_numpy(mask),
            torch.from_numpy(mask.sum(axis=0)),
            torch.from_numpy(longest_first[text] * mask.shape[1] + time),
            torch.tensor(range(len(sizes)) if text_indices is None else text_indices),
        )

    def to(self, device: torch.device) -> "PackedBatch":
        """Return a copy on the given device; `batch_sizes` remains on the CPU."""
        mask, positions, text_indices = (
            to_device(tensor, device) for tensor in (self.mask, self.positions, self.text_indices)
        )
        return PackedBatch(mask, self.batch_sizes, positions, text_indices)

    def pack(self, x: Tensor) -> PackedSequence:
        """Convert a padded batch, (texts, time, dim), to a packed sequence."""
        return PackedSequence(x.flatten(0, 1).index_select(0, self.positions), self.batch_sizes)

    def unpack(self, packed: PackedSequence) -> Tensor:
        """Convert a packed sequence to a padded batch, (texts, time, dim), zero at padding."""
        texts, time = self.mask.shape
        block = packed.data.new_zeros(texts * time, packed.data.shape[1])
        return block.index_copy(0, self.positions, packed.data).view(texts, time, -1)
