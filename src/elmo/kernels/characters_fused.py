"""Fused GPU kernels for character convolutions with max pooling in half precision.

The computation is that of `characters_reference.convolve_and_pool`, but the output of the
convolution is never written to memory.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import HALF_DTYPES, can_fuse, on_device_of, product_dtype

WORDS = 64
FILTERS = 64
CHARACTERS = 64
# Largest size of a filter (width * dim) and of a character vector: a tile holds all of it.
MAX_FILTER_SIZE = 256
MAX_CHARACTER_DIM = 128
# Number of programs among which the words of a sum are divided.
PROGRAMS = 512


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether Triton supports the GPU, the dtype is half precision and the filters fit a tile."""
    return (
        characters.is_cuda
        and product_dtype(table) in HALF_DTYPES
        and len(characters) > 0
        # Positions are stored as uint8.
        and max(weight.shape[2] for weight in weights) <= characters.shape[1] <= 256
        and table.shape[1] <= MAX_CHARACTER_DIM
        and max(weight[0].numel() for weight in weights) <= MAX_FILTER_SIZE
        and can_fuse(characters)
    )


def convolve_and_pool(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Compute the same as `characters_reference.convolve_and_pool`."""
    dtype = product_dtype(table)
    with torch.autocast(table.device.type, enabled=False), on_device_of(table):
        maxima: Tensor = _ConvolveAndPool.apply(  # type: ignore[no-untyped-call]
            dtype, characters, table, *weights, *biases
        )
    return maxima


class _ConvolveAndPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, characters: Tensor, table: Tensor, *filters: Tensor
    ) -> Tensor:
        from elmo.kernels.triton_characters import convolve

        weights, biases = filters[: len(filters) // 2], filters[len(filters) // 2 :]
        n_words, length = characters.shape
        vectors = functional.embedding(characters, table.to(dtype))
        used = _used_lengths(characters)
        n_columns = sum(len(bias) for bias in biases)
        maxima = torch.empty((n_words, n_columns), dtype=dtype, device=table.device)
        chosen = torch.empty((n_words, n_columns), dtype=torch.uint8, device=table.device)
        column = 0
        for weight, bias in zip(weights, biases, strict=True):
            n_filters, dim, width = weight.shape
            grid = (-(-n_words // WORDS), -(-n_filters // FILTERS))
            convolve[grid](
                vectors,
                weight.permute(2, 1, 0).reshape(width * dim, n_filters).to(dtype).contiguous(),
                bias.float(),
                used,
                maxima,
                chosen,
                n_words,
                n_columns,
                column,
                DEPTH=_tile_size(width * dim),
                **_sizes(weight, length),
            )
            column += n_filters
        ctx.save_for_backward(characters, table, vectors, used, chosen, *weights)
        return maxima

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        from elmo.kernels.triton_characters import (
            character_gradients,
            filter_gradients,
            vector_gradients,
        )

        characters, table, vectors, used, chosen, *weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        n_words, length, dim = vectors.shape
        d_vectors = torch.zeros(vectors.shape, dtype=torch.float32, device=table.device)
        d_weights = []
        column = 0
        for weight in weights:
            n_filters, _, width = weight.shape
            blocks_each, n_splits = _split_words(n_words, -(-n_filters // FILTERS))
            sums = d_vectors.new_empty((n_splits, width, dim, n_filters))
            pooling = (gradient, chosen, used)
            layout = (n_words, gradient.shape[1], column)
            sizes = _sizes(weight, length)
            depth = _tile_size(width * dim)
            filter_gradients[(-(-n_filters // FILTERS), n_splits)](
                vectors, *pooling, sums, *layout, blocks_each, DEPTH=depth, **sizes
            )
            d_weights.append(sums.sum(dim=0).permute(2, 1, 0).to(weight.dtype))
            transposed = weight.mT.to(vectors.dtype).contiguous()  # (filters, width, dim)
            vector_gradients[(-(-n_words // WORDS), length)](
                transposed, *pooling, d_vectors, *layout, BREADTH=_tile_size(dim), **sizes
            )
            column += n_filters
        blocks_each, n_splits = _split_words(n_words, -(-len(table) // CHARACTERS))
        sums = d_vectors.new_empty((n_splits, len(table), dim))
        character_gradients[(-(-len(table) // CHARACTERS), n_splits)](
            d_vectors,
            characters.int().contiguous(),
            used,
            sums,
            n_words,
            len(table),
            blocks_each,
            LENGTH=length,
            DIM=dim,
            WIDEST=max(weight.shape[2] for weight in weights),
            BREADTH=_tile_size(dim),
            WORDS=WORDS,
            BLOCK=CHARACTERS,
            num_warps=4,
        )
        d_table = sums.sum(dim=0)
        # Row 0 is the mask, which is never trained.
        d_table[0].zero_()
        d_bias = gradient.sum(dim=0, dtype=torch.float32)
        split_biases = torch.split_with_sizes(d_bias, [len(weight) for weight in weights])
        d_biases = [
            value.to(weight.dtype) for value, weight in zip(split_biases, weights, strict=True)
        ]
        return (None, None, d_table.to(table.dtype), *d_weights, *d_biases)


def _sizes(weight: Tensor, length: int) -> dict[str, Any]:
    """Return the compile-time constants of a kernel for filters of one width."""
    n_filters, dim, width = weight.shape
    return {
        "LENGTH": length,
        "DIM": dim,
        "WIDTH": width,
        "FILTERS": n_filters,
        "WORDS": WORDS,
        "BLOCK": FILTERS,
        "num_warps": 4,
    }


def _split_words(n_words: int, n_columns: int) -> tuple[int, int]:
    """Divide the words among GPU programs; each column block has separate programs.

    Returns the number of word blocks per program, and the number of programs per column block.
    """
    n_blocks = -(-n_words // WORDS)
    blocks_each = -(-n_blocks * n_columns // PROGRAMS)
    return blocks_each, -(-n_blocks // blocks_each)


def _tile_size(size: int) -> int:
    """Return the smallest valid tile size (a power of two, at least 16) that holds `size`."""
    return max(16, 1 << (size - 1).bit_length())


def _used_lengths(characters: Tensor) -> Tensor:
    """Return the length of each word without its trailing padding characters, (words,)."""
    positions = torch.arange(1, characters.shape[1] + 1, device=characters.device)
    return ((characters != characters[:, -1:]) * positions).amax(dim=1).int()
