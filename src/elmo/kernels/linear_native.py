"""Native CPU kernels for linear and highway layers, without gradients."""

from functools import partial

import torch
from torch import Tensor

from elmo.kernels.native_ffi import (
    DEPTH_MULTIPLES,
    PANEL,
    Epilogue,
    NumberFormat,
    PackedWeights,
    can_compute,
    gather_rows,
    interleave,
    is_float32_inference,
    multiply,
    pack_matrix,
)
from elmo.kernels.native_threads import run_tasks, split_range
from elmo.kernels.weight_snapshot import WeightSnapshot

# Columns of the transform and of the gate alternate in blocks of sixteen.
_interleave_gate = partial(interleave, 2)


def can_run(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether no gradients are needed and the weight matrix needs no padding."""
    n, k = weight.shape
    return (
        is_float32_inference(x, weight, bias)
        and (x.dim() == 2 and x.shape[1] == k and bias.shape == (n,))
        and n % PANEL == 0
        and k % max(DEPTH_MULTIPLES.values()) == 0
        and can_compute("float32")
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor, snapshot: WeightSnapshot) -> Tensor:
    """Return `x weightᵀ + bias`, (rows, n), computed in float32."""
    weights = snapshot.copy([weight], "linear", lambda: pack_matrix(weight.detach(), "float32"))
    bias = bias.detach().contiguous()
    return _multiply_in_parallel(x, weights, bias, "float32", Epilogue.NONE, len(weight))


def can_run_highway(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether `can_run` is true and the weight has the shape of a highway layer, (2 * dim, dim)."""
    return can_run(x, weight, bias) and len(weight) == 2 * weight.shape[1]


def highway(
    x: Tensor, weight: Tensor, bias: Tensor, snapshot: WeightSnapshot, number_format: NumberFormat
) -> Tensor:
    """Return the output of a highway layer, (rows, dim); see `Kernels.highway`."""

    def pack() -> PackedWeights:
        return pack_matrix(_interleave_gate(weight.detach()), number_format)

    weights = snapshot.copy([weight], f"highway {number_format}", pack)
    bias = _interleave_gate(bias.detach()).contiguous()
    width = len(weight) // 2
    return _multiply_in_parallel(x, weights, bias, number_format, Epilogue.HIGHWAY, width)


def _multiply_in_parallel(
    x: Tensor,
    weights: PackedWeights,
    bias: Tensor,
    number_format: NumberFormat,
    epilogue: Epilogue,
    width: int,
) -> Tensor:
    x = x.contiguous()
    rows = gather_rows(x, None, number_format, in_parallel=True)
    out = torch.empty(len(x), width)
    args = (rows, weights, bias, number_format, out.data_ptr())
    column_ranges = split_range(weights.n, PANEL, len(x) * weights.k)
    run_tasks(partial(multiply, *args, columns, epilogue, x) for columns in column_ranges)
    return out
