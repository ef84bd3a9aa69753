"""A batch whose computation has started, and functions to split it into sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.embed.host_arrays import HostArray
from elmo.model.lstm import LSTMState
from elmo.text.token_batches import Sentence


class VectorOverflow(Exception):
    """Raised if a vector overflows float16; the message is the text of the sentence."""


@dataclass(frozen=True)
class PendingBatch:
    """A batch whose computation has started.

    The vectors, (..., rows, words, dim), are on the host after the CUDA event `done`, unless
    tensors on the device were requested; without a copy there is no event. `overflows` is whether
    any value is infinite in half precision, valid after `done`; None if this is not checked.
    """

    sentences: Sequence[Sentence]
    vectors: Tensor
    lengths: list[int]
    state: LSTMState
    overflows: Tensor | None = None
    done: torch.cuda.Event | None = None


def check_finite(batch: PendingBatch) -> None:
    """Raise `VectorOverflow` if a word vector has an infinite value; padding is ignored."""
    rows = zip(batch.vectors.unbind(-3), batch.lengths, batch.sentences, strict=True)
    for vectors, length, sentence in rows:
        if vectors.narrow(-2, 0, length).isinf().any():
            raise VectorOverflow(" ".join(sentence))


def start_copy_to_host(values: Tensor) -> Tensor:
    """Start an asynchronous copy to pinned host memory and return the destination tensor."""
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return host.copy_(values, non_blocking=True)


def to_array(values: Tensor, dtype: torch.dtype) -> HostArray:
    """Copy a host tensor to a float32 or float16 NumPy array."""
    # NumPy copies in one thread; torch would start a thread team in each of our threads.
    array = np.empty(tuple(values.shape), np.float16 if dtype == torch.float16 else np.float32)
    if values.dtype == torch.bfloat16:
        # NumPy has no bfloat16, which is the upper half of a float32.
        upper = values.view(torch.int16).numpy().view(np.uint16)
        np.left_shift(upper, 16, out=array.view(np.uint32), dtype=np.uint32)
    else:
        np.copyto(array, values.numpy())
    return array


def similar_length_ranges(lengths: Sequence[int], max_rows: int) -> Iterator[range]:
    """Yield ranges of up to `max_rows` consecutive rows with similar lengths.

    Every length in a range is between half and twice the length of its first row.
    """
    first = 0
    for row in range(1, len(lengths) + 1):
        is_full = row == len(lengths) or row - first == max_rows
        if is_full or not lengths[first] <= 2 * lengths[row] <= 4 * lengths[first]:
            yield range(first, row)
            first = row
