"""Launch parameters of the fused LSTM for each batch size, determined by benchmarks."""

from dataclasses import dataclass

import torch

from elmo.kernels.device import HALF_DTYPES


@dataclass(frozen=True)
class LaunchTile:
    """Tile size of a kernel launch: rows, columns, and depth (terms summed per loop iteration)."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    split: int = 1
    """Number of parts into which the inner sum is split to compute them in parallel (split-K)."""


@dataclass(frozen=True)
class LaunchPlan:
    """Tile sizes for the matrix products of a layer; None for products computed by cuBLAS.

    A joint plan multiplies input and state in one product in each step, instead of multiplying all
    inputs before the first step; it requires a tile for `gates`, whose epilogue computes the cell.
    `recurrent` is for the product that computes the gradient of the previous state.
    """

    joint: bool
    gates: LaunchTile | None
    projection: LaunchTile | None
    recurrent: LaunchTile | None


CELL = LaunchTile(rows=32, columns=64, depth=16, warps=4, stages=1)
"""Tile of the cell after a gate product with cuBLAS, and of the gradient of the cell."""
EXACT = LaunchPlan(joint=False, gates=None, projection=None, recurrent=None)
"""Plan for float32: all products with cuBLAS, whose precision PyTorch's settings determine."""
BLOCK = 1024


def plan_for(batch: int, dtype: torch.dtype) -> LaunchPlan:
    """Return the launch plan for a batch size and dtype, based on measurements in docs/log.md."""
    if dtype not in HALF_DTYPES:
        return EXACT
    rows = 16 if batch <= 16 else 32 if batch <= 32 else 64 if batch <= 64 else 128
    warps = 8 if rows == 128 else 4
    if batch <= 256:
        return LaunchPlan(
            joint=False,
            gates=LaunchTile(rows, 64, 64, warps, 3),
            projection=LaunchTile(rows, 64, 64, 4, 4, split=8),
            recurrent=LaunchTile(rows, 128, 64, warps, 3, split=16),
        )
    return LaunchPlan(
        joint=batch >= 512,
        gates=LaunchTile(128, 64, 64, 8, 3),
        projection=None,
        recurrent=None,
    )
