"""Convolutions over characters and their maximum, without anything as large as a convolution.

The twin of `characters_reference.convolve_and_pool`, for half precision on a GPU.
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
# Numbers under a filter, and of a character: a tile holds all of them.
DEEPEST = 256
BROADEST = 128
# Programs that share a sum over all words: each has a part of them.
PROGRAMS = 512


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Tell whether this is for a GPU that Triton knows, in half precision, and fits its tiles."""
    return (
        characters.is_cuda
        and product_dtype(table) in HALF_DTYPES
        and len(characters) > 0
        # Positions are kept in a byte.
        and max(weight.shape[2] for weight in weights) <= characters.shape[1] <= 256
        and table.shape[1] <= BROADEST
        and max(weight[0].numel() for weight in weights) <= DEEPEST
        and can_fuse(characters)
    )


def convolve_and_pool(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word; see the reference."""
    dtype = product_dtype(table)
    with torch.autocast(table.device.type, enabled=False), on_device_of(table):
        found: Tensor = _Pooled.apply(  # type: ignore[no-untyped-call]
            dtype, characters, table, *weights, *biases
        )
    return found


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, characters: Tensor, table: Tensor, *filters: Tensor
    ) -> Tensor:
        from elmo.kernels.triton_characters import convolve

        weights, biases = filters[: len(filters) // 2], filters[len(filters) // 2 :]
        n_words, length = characters.shape
        vectors = functional.embedding(characters, table.to(dtype))
        used = _used(characters)
        n_columns = sum(len(bias) for bias in biases)
        found = torch.empty((n_words, n_columns), dtype=dtype, device=table.device)
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
                found,
                chosen,
                n_words,
                n_columns,
                column,
                DEPTH=_tiled(width * dim),
                **_sizes(weight, length),
            )
            column += n_filters
        ctx.save_for_backward(characters, table, vectors, used, chosen, *weights)
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        from elmo.kernels.triton_characters import to_characters, to_filters, to_vectors

        characters, table, vectors, used, chosen, *weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        n_words, length, dim = vectors.shape
        d_vectors = torch.zeros(vectors.shape, dtype=torch.float32, device=table.device)
        d_weights = []
        column = 0
        for weight in weights:
            n_filters, _, width = weight.shape
            split, n_splits = _splits(n_words, -(-n_filters // FILTERS))
            sums = d_vectors.new_empty((n_splits, width, dim, n_filters))
            upper = (gradient, chosen, used)
            place = (n_words, gradient.shape[1], column)
            sizes = _sizes(weight, length)
            to_filters[(-(-n_filters // FILTERS), n_splits)](
                vectors, *upper, sums, *place, split, DEPTH=_tiled(width * dim), **sizes
            )
            d_weights.append(sums.sum(dim=0).permute(2, 1, 0).to(weight.dtype))
            flat = weight.mT.to(vectors.dtype).contiguous()  # (filters, width, dim)
            to_vectors[(-(-n_words // WORDS), length)](
                flat, *upper, d_vectors, *place, BREADTH=_tiled(dim), **sizes
            )
            column += n_filters
        split, n_splits = _splits(n_words, -(-len(table) // CHARACTERS))
        sums = d_vectors.new_empty((n_splits, len(table), dim))
        to_characters[(-(-len(table) // CHARACTERS), n_splits)](
            d_vectors,
            characters.int().contiguous(),
            used,
            sums,
            n_words,
            len(table),
            split,
            LENGTH=length,
            DIM=dim,
            WIDEST=max(weight.shape[2] for weight in weights),
            BREADTH=_tiled(dim),
            WORDS=WORDS,
            BLOCK=CHARACTERS,
            num_warps=4,
        )
        d_table = sums.sum(dim=0)
        # The mask, which is never trained.
        d_table[0].zero_()
        d_bias = gradient.sum(dim=0, dtype=torch.float32)
        d_biases = torch.split_with_sizes(d_bias, [len(weight) for weight in weights])
        typed = [value.to(weight.dtype) for value, weight in zip(d_biases, weights, strict=True)]
        return (None, None, d_table.to(table.dtype), *d_weights, *typed)


def _sizes(weight: Tensor, length: int) -> dict[str, Any]:
    """Give what a kernel is compiled for: filters of one width over words of a length."""
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


def _splits(n_words: int, n_columns: int) -> tuple[int, int]:
    """Share words among programs, so many to a part: blocks of words in a part, parts."""
    n_blocks = -(-n_words // WORDS)
    blocks_each = -(-n_blocks * n_columns // PROGRAMS)
    return blocks_each, -(-n_blocks // blocks_each)


def _tiled(size: int) -> int:
    """Give the side of a tile that holds so many."""
    return max(16, 1 << (size - 1).bit_length())


def _used(characters: Tensor) -> Tensor:
    """Count the characters of each word before its last one repeats to the end."""
    places = torch.arange(1, characters.shape[1] + 1, device=characters.device)
    return ((characters != characters[:, -1:]) * places).amax(dim=1).int()
