"""Convolutions over characters and their maximum on a CPU through `native.c`.

The twin of `characters_reference.convolve_and_pool`, without gradients. A window of characters gives the sum
of what each of them gives at its place in the filter. That is multiplied once for each distinct
character, not for each window, and so in float32 whatever the arithmetic around it: the rounding
of narrow products would cost half of all that is lost, and save nothing.
"""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.native_ffi import (
    LANES,
    PANEL,
    After,
    Weights,
    are_within,
    can_compute,
    function,
    gathered,
    is_plain,
    multiply,
    pack_rows,
    room,
    shares,
    together,
)
from elmo.kernels.packing import packed

# Filters that are computed together.
BLOCK = 64


class _Convolutions(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("words", "length", "rows", "columns", "n")),
        *((name, ctypes.c_void_p) for name in ("shapes", "characters", "shares", "bias", "out")),
    )


class _Filters(NamedTuple):
    """The filters of all widths, as C takes them.

    Attributes:
        product: what a character is multiplied with.
        no_bias: of that product.
        bias: of the filters, of each width filled up.
        shapes: width and number of the filters of each width.
    """

    product: Weights
    no_bias: Tensor
    bias: Tensor
    shapes: Tensor


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


def convolve_and_pool(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word; see the reference."""
    filters = _packed(weights, biases)
    distinct, places = _distinct(characters, len(table))
    rows = gathered(table.detach().contiguous(), distinct, "float32")
    shared = room("characters", filters.product.n * rows.n * 4)
    multiplied = partial(multiply, rows, filters.product, filters.no_bias, "float32", shared)
    pieces = shares(filters.product.n, PANEL, rows.n * filters.product.k)
    together(partial(multiplied, columns, After.GATES) for columns in pieces)
    out = torch.empty(len(characters), sum(map(len, biases)))
    pool = partial(_pool, filters, shared, rows.n, places, out)
    work = characters.shape[1] * filters.product.n
    together(partial(pool, *words) for words in shares(len(characters), LANES, work))
    return out


def _packed(weights: Sequence[Tensor], biases: Sequence[Tensor]) -> _Filters:
    """Pack filters, once."""

    def make(_: Tensor) -> _Filters:
        product = pack_rows(torch.cat([_by_places(one.detach()) for one in weights]), "float32")
        bias = torch.cat([functional.pad(one.detach(), (0, -len(one) % BLOCK)) for one in biases])
        shapes = torch.tensor([(one.shape[2], len(one)) for one in weights])
        return _Filters(product, torch.zeros(product.n), bias, shapes)

    return packed(weights[0], "filters", make, (*weights[1:], *biases))


def _distinct(characters: Tensor, n_known: int) -> tuple[Tensor, Tensor]:
    """Give the characters that occur, and which of them stands at each place.

    By NumPy, which does it in this thread: PyTorch would wait for a team of others.
    """
    ids = characters.numpy()
    numbers = np.bincount(ids.ravel(), minlength=n_known)
    found = numbers.nonzero()[0]
    numbers[found] = np.arange(len(found))
    return torch.from_numpy(found), torch.from_numpy(numbers.take(ids))


def _pool(
    filters: _Filters,
    shared: int,
    n_distinct: int,
    places: Tensor,
    out: Tensor,
    first: int,
    last: int,
) -> None:
    """Write the maxima of some words.

    Args:
        filters: packed.
        shared: address of what each of the distinct characters gives at each place of each filter.
        n_distinct: how many there are.
        places: which of them stands where, (words, characters).
        out: (words, filters of all widths).
        first: of the words.
        last: the one after the last of them.
    """
    given = _Convolutions(
        words=last - first,
        length=places.shape[1],
        rows=n_distinct,
        columns=out.shape[1],
        n=len(filters.shapes),
        shapes=filters.shapes.data_ptr(),
        characters=places[first:].data_ptr(),
        shares=shared,
        bias=filters.bias.data_ptr(),
        out=out[first:].data_ptr(),
    )
    function("pooled")(ctypes.byref(given))


def _by_places(weight: Tensor) -> Tensor:
    """Put filters, (filters, dim, width), as their products are read: by blocks, then places."""
    n, dim, width = weight.shape
    whole = functional.pad(weight, (0, 0, 0, 0, 0, -n % BLOCK))
    return whole.view(-1, BLOCK, dim, width).permute(0, 3, 1, 2).reshape(-1, dim)
