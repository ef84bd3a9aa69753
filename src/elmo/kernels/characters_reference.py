"""Reference implementation of character convolutions with max pooling."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def convolve_and_pool(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Return the maximum of each filter over the positions of each word.

    Args:
        characters: Character ids, (words, characters).
        table: Character embeddings, (ids, dim). Row 0 is the mask, which is never trained.
        weights: One tensor of filters per width, (filters, dim, width).
        biases: One tensor of biases per width, (filters,).

    Returns:
        Maxima, (words, filters of all widths).
    """
    if characters.device.type == "cpu" and not torch.compiler.is_compiling():
        widest = max(weight.shape[2] for weight in weights)
        characters = _drop_repeated_columns(characters, widest)
    vectors = functional.embedding(characters, table, padding_idx=0)
    vectors = vectors.transpose(1, 2)  # (words, dim, characters)
    return torch.cat(
        [
            functional.conv1d(vectors, weight, bias).amax(dim=2)
            for weight, bias in zip(weights, biases, strict=True)
        ],
        dim=1,
    )


def _drop_repeated_columns(characters: Tensor, widest: int) -> Tensor:
    """Drop padding columns that cannot change any maximum.

    Once every word has repeated its last character for the width of the widest filter, all later
    windows equal an earlier one. Most words are short, so this drops most of the columns.
    """
    differs = (characters != characters[:, -1:]).any(dim=0).nonzero()
    used = int(differs.max()) + 1 if differs.numel() else 0
    return characters[:, : used + widest]
