"""Convolutions over the characters of words, each reduced to its maximum: the truth."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def convolve_and_pool(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word.

    Args:
        characters: ids, (words, characters).
        table: a vector for each id, (ids, dim); the first is the mask, which is never trained.
        weights: filters of each width, (filters, dim, width).
        biases: of each width, (filters,).

    Returns:
        (words, filters of all widths).
    """
    if characters.device.type == "cpu" and not torch.compiler.is_compiling():
        widest = max(weight.shape[2] for weight in weights)
        characters = _without_idle_columns(characters, widest)
    vectors = functional.embedding(characters, table, padding_idx=0)
    vectors = vectors.transpose(1, 2)  # (words, dim, characters)
    return torch.cat(
        [
            functional.conv1d(vectors, weight, bias).amax(dim=2)
            for weight, bias in zip(weights, biases, strict=True)
        ],
        dim=1,
    )


def _without_idle_columns(characters: Tensor, widest: int) -> Tensor:
    """Drop columns of padding that no filter can see anything new in.

    Once every word repeats its last character for the width of the widest filter, all further
    windows equal one that was seen, and a maximum does not count repetitions. Words being short,
    this is most of the columns.
    """
    differs = (characters != characters[:, -1:]).any(dim=0).nonzero()
    used = int(differs.max()) + 1 if differs.numel() else 0
    return characters[:, : used + widest]
