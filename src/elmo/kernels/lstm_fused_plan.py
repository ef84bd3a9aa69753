"""Launch parameters of the fused LSTM for each batch size, chosen by measurement."""

from dataclasses import dataclass

import torch

from elmo.kernels.device import HALF_DTYPES


@dataclass(frozen=True)
class LaunchTile:
    """Tile of a kernel launch: rows, columns, and depth of one step of the inner sum."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    split: int = 1
    """Number of parts of the inner sum that are computed in parallel (split-K)."""


@dataclass(frozen=True)
class LaunchPlan:
    """Tiles of the products of a layer; None for a product with cuBLAS.

    Attributes:
        joint: Multiply input and state in one product at each step, instead of all inputs before
            the first step. Requires a tile for `gates`.
        gates: Tile of the gate product of a step, whose epilogue computes the cell.
        projection: Tile of the projection of the cell's output.
        recurrent: Tile of the gradient of the previous state.
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
    """Return the plan for a batch size and dtype, as measured in docs/log.md."""
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
