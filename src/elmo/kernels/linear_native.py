"""A linear layer on a CPU through `native.c`: `functional.linear` without gradients."""

from functools import partial

import torch
from torch import Tensor

from elmo.kernels.narrow import Arithmetic, wanted
from elmo.kernels.native_calls import (
    DEPTHS,
    PANEL,
    can_compute,
    is_plain,
    multiply,
    pack,
    shares,
    together,
)


def can_run(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Tell whether this is a call without gradients, of a matrix that needs no filling up."""
    n, k = weight.shape
    return (
        is_plain(x, weight, bias)
        and x.dim() == 2
        and n % PANEL == 0
        and k % max(DEPTHS.values()) == 0
        and can_compute(wanted())
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor, arithmetic: Arithmetic) -> Tensor:
    """Give `x weightᵀ + bias`, (rows, n)."""
    weights = pack(weight, arithmetic)
    x, bias = x.contiguous(), bias.detach().contiguous()
    out = torch.empty(len(x), len(weight))
    give = partial(multiply, x, None, weights, bias, arithmetic, out.data_ptr(), gates=False)
    together(partial(give, columns=columns) for columns in shares(len(weight), PANEL))
    return out
