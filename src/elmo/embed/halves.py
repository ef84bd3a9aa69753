"""Vectors in half precision, for the shards of a job; what does not fit is told."""

import numpy as np
import torch
from numpy.typing import NDArray

# Numbers made at once: all of them stay in a core's cache, and torch would share more of them out
# to a team of threads, beside those that compute.
PIECE = 2**14
ALL_BUT_SIGN, INFINITE = 0x7FFF, 0x7C00


def in_half(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round numbers to float16; raises OverflowError where one becomes infinite.

    By torch, which has the processor's instruction for it: NumPy's own loop takes longer than this
    and the check together.

    Args:
        vectors: of any shape.
    """
    numbers = vectors.reshape(-1)
    halves = np.empty(numbers.shape, np.float16)
    for start in range(0, len(numbers), PIECE):
        piece = halves[start : start + PIECE]
        torch.from_numpy(piece).copy_(torch.from_numpy(numbers[start : start + PIECE]))
        if ((piece.view(np.uint16) & ALL_BUT_SIGN) == INFINITE).any():
            raise OverflowError("a number is larger than float16 holds")
    return halves.reshape(vectors.shape)
