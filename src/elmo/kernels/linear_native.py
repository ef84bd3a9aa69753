"""Linear and highway layers on a CPU through `native.c`, without gradients."""

from functools import partial

import torch
from torch import Tensor

from elmo.kernels.compute_precision import wanted
from elmo.kernels.native_ffi import (
    DEPTHS,
    PANEL,
    After,
    Kind,
    Weights,
    can_compute,
    gathered,
    is_plain,
    kind_of,
    multiply,
    pack,
    shares,
    side_by_side,
    together,
)

# Transform and gate: their columns stand beside each other, sixteen by sixteen.
_both = partial(side_by_side, 2)


def can_run(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Tell whether this is a call without gradients, of a matrix that needs no filling up."""
    n, k = weight.shape
    return (
        is_plain(x, weight, bias)
        and (x.dim() == 2 and x.shape[1] == k and bias.shape == (n,))
        and n % PANEL == 0
        and k % max(DEPTHS.values()) == 0
        and can_compute(kind_of(wanted()))
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Give `x weightᵀ + bias`, (rows, n), in float32."""
    kind = kind_of("float32")
    weights, bias = pack(weight, kind), bias.detach().contiguous()
    return _multiplied(x, weights, bias, kind, After.PLAIN, len(weight))


def can_run_highway(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Tell whether such a call is also one of a transform and a gate."""
    return can_run(x, weight, bias) and len(weight) == 2 * weight.shape[1]


def highway(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Give what `choose.highway` does, (rows, n / 2), in the arithmetic that is asked for."""
    kind = kind_of(wanted())
    weights = pack(weight, kind, "highway", _both)
    bias = _both(bias.detach()).contiguous()
    return _multiplied(x, weights, bias, kind, After.HIGHWAY, len(weight) // 2)


def _multiplied(
    x: Tensor, weights: Weights, bias: Tensor, kind: Kind, after: After, width: int
) -> Tensor:
    x = x.contiguous()
    rows = gathered(x, None, kind, with_others=True)
    out = torch.empty(len(x), width)
    given = (rows, weights, bias, kind, out.data_ptr())
    columns = shares(weights.n, PANEL, len(x) * weights.k)
    together(partial(multiply, *given, some, after, x) for some in columns)
    return out
