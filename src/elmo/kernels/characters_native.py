"""Native CPU kernels for character convolutions with max pooling, without gradients.

The computation is that of `characters_reference.convolve_and_pool`. The output of a filter for a
window is the sum of one contribution per character, which depends on the character and on its
position in the filter. The contributions are computed once per distinct character instead of once
per window, and always in float32: low-precision products would cause half of the model's total
rounding error and save no time.
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
    PANEL,
    TILE,
    Epilogue,
    PackedWeights,
    are_valid_indices,
    can_compute,
    gather_rows,
    is_float32_inference,
    multiply,
    native_function,
    pack_matrix,
    scratch,
)
from elmo.kernels.native_structs import ConvolutionArgs
from elmo.kernels.native_threads import run_tasks, split_range
from elmo.kernels.weight_snapshot import WeightSnapshot

# Filters that are computed together.
FILTER_BLOCK = 64


class _PackedFilters(NamedTuple):
    """Filters of all widths, packed in the layout that native.c expects.

    Attributes:
        weights: Packed matrix that maps a character vector to its contributions to all filters.
        zero_bias: Zero bias for the product with `weights`.
        bias: Filter biases, padded to a multiple of FILTER_BLOCK for each width.
        shapes: Filter width and number of filters for each width, (widths, 2).
    """

    weights: PackedWeights
    zero_bias: Tensor
    bias: Tensor
    shapes: Tensor


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether no gradients are needed and words are at least as long as the widest filter."""
    return (
        is_float32_inference(table, *weights)
        and characters.device.type == "cpu"
        and len(characters) > 0
        and are_valid_indices(characters, len(table))
        and table.shape[1] % TILE == 0
        and characters.shape[1] >= max(weight.shape[2] for weight in weights)
        and can_compute("float32")
    )


def convolve_and_pool(
    characters: Tensor,
    table: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    snapshot: WeightSnapshot,
) -> Tensor:
    """Compute the same as `characters_reference.convolve_and_pool`."""
    pack = partial(_pack_filters, weights, biases)
    filters = snapshot.copy([*weights, *biases], "filters", pack)
    distinct, positions = _distinct_characters(characters, len(table))
    rows = gather_rows(table.detach().contiguous(), distinct, "float32")
    contributions = scratch("characters", filters.weights.n * rows.n * 4)
    product = partial(multiply, rows, filters.weights, filters.zero_bias, "float32", contributions)
    column_ranges = split_range(filters.weights.n, PANEL, rows.n * filters.weights.k)
    run_tasks(partial(product, columns, Epilogue.GATES) for columns in column_ranges)
    out = torch.empty(len(characters), sum(map(len, biases)))
    pool = partial(_pool, filters, contributions, rows.n, positions, out)
    work = characters.shape[1] * filters.weights.n
    run_tasks(partial(pool, *words) for words in split_range(len(characters), TILE, work))
    return out


def _pack_filters(weights: Sequence[Tensor], biases: Sequence[Tensor]) -> _PackedFilters:
    matrix = torch.cat([_contribution_matrix(weight.detach()) for weight in weights])
    packed = pack_matrix(matrix, "float32")
    bias = torch.cat(
        [functional.pad(bias.detach(), (0, -len(bias) % FILTER_BLOCK)) for bias in biases]
    )
    shapes = torch.tensor([(weight.shape[2], len(weight)) for weight in weights])
    return _PackedFilters(packed, torch.zeros(packed.n), bias, shapes)


def _distinct_characters(characters: Tensor, n_ids: int) -> tuple[Tensor, Tensor]:
    """Return the distinct character ids, and the index of the id at each position.

    Uses NumPy because it runs in the calling thread; PyTorch would wait for its thread pool.
    """
    ids = characters.numpy()
    numbers = np.bincount(ids.ravel(), minlength=n_ids)
    distinct = numbers.nonzero()[0]
    numbers[distinct] = np.arange(len(distinct))
    return torch.from_numpy(distinct), torch.from_numpy(numbers.take(ids))


def _pool(
    filters: _PackedFilters,
    contributions: int,
    n_distinct: int,
    positions: Tensor,
    out: Tensor,
    first: int,
    last: int,
) -> None:
    """Compute the maximum of each filter for a range of words and write it to `out`.

    Args:
        filters: Packed filters.
        contributions: Address of the contributions of each distinct character at each position of
            each filter.
        n_distinct: Number of distinct characters.
        positions: Index of the distinct character at each position, (words, characters).
        out: Output, (words, filters of all widths).
        first: First word.
        last: End of the word range (exclusive).
    """
    args = ConvolutionArgs(
        words=last - first,
        length=positions.shape[1],
        n_distinct=n_distinct,
        columns=out.shape[1],
        n_widths=len(filters.shapes),
        shapes=filters.shapes.data_ptr(),
        characters=positions[first:].data_ptr(),
        contributions=contributions,
        bias=filters.bias.data_ptr(),
        out=out[first:].data_ptr(),
    )
    native_function("convolve_and_pool")(ctypes.byref(args))


def _contribution_matrix(weight: Tensor) -> Tensor:
    """Reorder filters from (filters, dim, width) to (blocks * width * FILTER_BLOCK, dim)."""
    n, dim, width = weight.shape
    padded = functional.pad(weight, (0, 0, 0, 0, 0, -n % FILTER_BLOCK))
    return padded.view(-1, FILTER_BLOCK, dim, width).permute(0, 3, 1, 2).reshape(-1, dim)
