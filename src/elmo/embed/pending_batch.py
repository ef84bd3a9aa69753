"""A batch on its way from the network to the arrays of its sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.model.lstm import LSTMState
from elmo.text.token_batches import Sentence


class BatchTooLarge(Exception):
    """A vector of the sentence that is named has a number which its type does not hold."""


@dataclass(frozen=True)
class PendingBatch:
    """A batch that is being computed.

    Attributes:
        sentences: of the batch.
        vectors: (..., rows, words, dim), on the host once `done` has come.
        lengths: words of each row.
        state: after the batch.
        too_large: whether a number became infinite in half precision, on the host once `done` has
            come; None where that does not matter.
        done: None where nothing has to be waited for.
    """

    sentences: Sequence[Sentence]
    vectors: Tensor
    lengths: list[int]
    state: LSTMState
    too_large: Tensor | None = None
    done: torch.cuda.Event | None = None


def check_words(started: PendingBatch) -> None:
    """Refuse what is infinite at a word; what it is at padding is nobody's."""
    rows = zip(started.vectors.unbind(-3), started.lengths, started.sentences, strict=True)
    for vectors, length, sentence in rows:
        if vectors.narrow(-2, 0, length).isinf().any():
            raise BatchTooLarge(" ".join(sentence))


def sent_back(values: Tensor) -> Tensor:
    """Bring values to the host; they are there once the device has come so far."""
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return host.copy_(values, non_blocking=True)


def as_array(values: Tensor, kind: torch.dtype) -> NDArray[np.floating[Any]]:
    """Copy values of the host, as float32 or float16."""
    # By NumPy, since its copy is one thread's: torch would start a team for each, in each of ours.
    copied = np.empty(tuple(values.shape), np.float16 if kind == torch.float16 else np.float32)
    if values.dtype == torch.bfloat16:
        # NumPy does not know it: it is the upper half of a float32.
        upper = values.view(torch.int16).numpy().view(np.uint16)
        np.left_shift(upper, 16, out=copied.view(np.uint32), dtype=np.uint32)
    else:
        np.copyto(copied, values.numpy())
    return copied


def alike(counts: Sequence[int], together: int) -> Iterator[range]:
    """Cut rows into pieces of some at most, of lengths between half and twice the first one's."""
    first = 0
    for place in range(1, len(counts) + 1):
        is_full = place == len(counts) or place - first == together
        if is_full or not counts[first] <= 2 * counts[place] <= 4 * counts[first]:
            yield range(first, place)
            first = place
