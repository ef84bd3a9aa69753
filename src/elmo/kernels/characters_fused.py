"""Convolutions over characters and their maximum, without anything as large as a convolution.

The twin of `characters_reference.pooled`, for half precision on a GPU.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import HALVES, arithmetic_of, can_fuse, on_device_of

WORDS = 64
FILTERS = 64
# Numbers under a filter: a tile holds all of them.
DEEPEST = 256
# Words are counted in so many groups side by side, whose sums are added up at the end.
SPLITS = 16
THREADS = 128


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Tell whether this is for a GPU that Triton knows, in half precision, and fits its tiles."""
    return (
        characters.is_cuda
        and arithmetic_of(table) in HALVES
        # Positions are kept in a byte.
        and characters.shape[1] <= 256
        and max(weight[0].numel() for weight in weights) <= DEEPEST
        and can_fuse(characters)
    )


def pooled(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word; see the reference."""
    dtype = arithmetic_of(table)
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
                LENGTH=length,
                DIM=dim,
                WIDTH=width,
                FILTERS=n_filters,
                DEPTH=max(16, 1 << (width * dim - 1).bit_length()),
                WORDS=WORDS,
                BLOCK=FILTERS,
                num_warps=4,
            )
            column += n_filters
        ctx.save_for_backward(characters, table, chosen, *weights)
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        from elmo.kernels.triton_characters import count

        characters, table, chosen, *weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        n_words, length = characters.shape
        letters = characters.int().contiguous()
        wide = table.float()
        d_table = torch.zeros_like(wide)
        d_weights = []
        words_each = -(-n_words // SPLITS)
        column = 0
        for weight in weights:
            n_filters, _, width = weight.shape
            sums = torch.zeros(
                (SPLITS, width, n_filters, len(table)), dtype=torch.float32, device=table.device
            )
            count[(-(-n_filters // THREADS), SPLITS, width)](
                gradient,
                chosen,
                letters,
                sums,
                n_words,
                gradient.shape[1],
                column,
                words_each,
                LENGTH=length,
                WIDTH=width,
                FILTERS=n_filters,
                CHARACTERS=len(table),
                BLOCK=THREADS,
                num_warps=THREADS // 32,
            )
            by_place = sums.sum(dim=0)  # (width, filters, characters)
            d_weight = by_place @ wide  # (width, filters, dim)
            d_weights.append(d_weight.permute(1, 2, 0).to(weight.dtype))
            d_table += (by_place.mT @ weight.float().permute(2, 0, 1)).sum(dim=0)
            column += n_filters
        # The mask, which is never trained.
        d_table[0].zero_()
        d_bias = gradient.sum(dim=0, dtype=torch.float32)
        d_biases = torch.split_with_sizes(d_bias, [len(weight) for weight in weights])
        typed = [value.to(weight.dtype) for value, weight in zip(d_biases, weights, strict=True)]
        return (None, None, d_table.to(table.dtype), *d_weights, *typed)


def _used(characters: Tensor) -> Tensor:
    """Count the characters of each word before its last one repeats to the end."""
    places = torch.arange(1, characters.shape[1] + 1, device=characters.device)
    return ((characters != characters[:, -1:]) * places).amax(dim=1).int()
