"""Convolutions over characters and their maximum on a CPU through `native.c`.

The twin of `characters_reference.pooled`, without gradients. A window of characters gives the sum
of what each of them gives at its place in the filter. That is multiplied once for each distinct
character, not for each window, and so in float32 whatever the arithmetic around it: the rounding
of narrow products would cost half of all that is lost, and save nothing.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.native_calls import (
    LANES,
    PANEL,
    After,
    aligned,
    are_within,
    can_compute,
    function,
    gathered,
    is_plain,
    multiply,
    pack,
    shares,
    together,
)

# Filters that are computed together.
BLOCK = 64


class _Convolution(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("words", "length", "width", "rows", "filters", "columns", "column")
        ),
        *((name, ctypes.c_void_p) for name in ("characters", "shares", "bias", "out")),
    )


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Tell whether this is a call without gradients, of words as long as the widest filter."""
    return (
        is_plain(table, *weights)
        and characters.device.type == "cpu"
        and len(characters) > 0
        and are_within(characters, len(table))
        and table.shape[1] % LANES == 0
        and characters.shape[1] >= max(weight.shape[2] for weight in weights)
        and can_compute("float32")
    )


def pooled(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word; see the reference."""
    distinct, rows = _distinct(characters, len(table))
    vectors = table.detach().contiguous()
    filters = [
        _Filters(weight, bias, vectors, distinct)
        for weight, bias in zip(weights, biases, strict=True)
    ]
    together(task for own in filters for task in own.before())
    out = torch.empty(len(characters), sum(map(len, biases)))

    def compute(first: int, last: int) -> None:
        column = 0
        for own in filters:
            own.pool(rows[first:last], out[first:last], column)
            column += own.n

    work = characters.shape[1] * sum(weight[:, 0].numel() for weight in weights)
    together(partial(compute, *words) for words in shares(len(characters), LANES, work))
    return out


def _distinct(characters: Tensor, n_known: int) -> tuple[Tensor, Tensor]:
    """Give the characters that occur, and which of them stands at each place.

    By NumPy, which does it in this thread: PyTorch would wait for a team of others.
    """
    ids = characters.numpy()
    numbers = np.bincount(ids.ravel(), minlength=n_known)
    found = numbers.nonzero()[0]
    numbers[found] = np.arange(len(found))
    return torch.from_numpy(found), torch.from_numpy(numbers.take(ids))


class _Filters:
    """The filters of one width, and what each character gives at each of their places."""

    def __init__(self, weight: Tensor, bias: Tensor, vectors: Tensor, distinct: Tensor) -> None:
        self.n, _, self.width = weight.shape
        self.weights = pack(weight, "float32", "places", _by_places)
        self.bias = functional.pad(bias.detach(), (0, -self.n % BLOCK))
        self.vectors, self.distinct = vectors, distinct
        self.shares = aligned(self.weights.n * len(distinct) * 4)

    def before(self) -> Iterator[Callable[[], None]]:
        """Give the tasks that come before all pooling: the products."""
        rows = gathered(self.vectors, self.distinct, "float32")
        give = partial(multiply, rows, self.weights, torch.zeros(self.weights.n), "float32")
        for columns in shares(self.weights.n, PANEL, rows.n * self.weights.k):
            yield partial(give, self.shares.data_ptr(), columns, After.GATES)

    def pool(self, rows: Tensor, out: Tensor, column: int) -> None:
        """Write the maxima of some words.

        Args:
            rows: which of the distinct characters stands where, (words, characters).
            out: (words, filters of all widths).
            column: where these filters begin.
        """
        given = _Convolution(
            words=len(out),
            length=rows.shape[1],
            width=self.width,
            rows=len(self.distinct),
            filters=self.n,
            columns=out.shape[1],
            column=column,
            characters=rows.data_ptr(),
            shares=self.shares.data_ptr(),
            bias=self.bias.data_ptr(),
            out=out.data_ptr(),
        )
        function("pooled")(ctypes.byref(given))


def _by_places(weight: Tensor) -> Tensor:
    """Put filters, (filters, dim, width), as their products are read: by blocks, then places."""
    n, dim, width = weight.shape
    whole = functional.pad(weight, (0, 0, 0, 0, 0, -n % BLOCK))
    return whole.view(-1, BLOCK, dim, width).permute(0, 3, 1, 2).reshape(-1, dim)
