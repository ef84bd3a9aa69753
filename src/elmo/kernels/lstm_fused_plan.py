"""How the fused LSTM is cut into launches, by the size of a batch: what was found the fastest."""

from dataclasses import dataclass

import torch

from elmo.kernels.device import HALF_DTYPES


@dataclass(frozen=True)
class LaunchTile:
    """How a launch is cut: a tile's rows and columns, the depth of a step of its sum."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    split: int = 1
    """Parts of the sum that are computed side by side."""


@dataclass(frozen=True)
class LaunchPlan:
    """Which way a layer is computed; None for a product of the library's.

    Attributes:
        joint: input and state in one product at each step, not the input beforehand; for gates
            with a tile.
        gates: the product of a step, with the cell in its epilogue.
        projection: of the cell's output.
        recurrent: the gradient that goes to the step before.
    """

    joint: bool
    gates: LaunchTile | None
    projection: LaunchTile | None
    recurrent: LaunchTile | None


CELL = LaunchTile(rows=32, columns=64, depth=16, warps=4, stages=1)
"""For a cell whose product is the library's, and for its gradient."""
EXACT = LaunchPlan(joint=False, gates=None, projection=None, recurrent=None)
"""For float32: products are the library's, in the precision that is set there."""
BLOCK = 1024


def plan_for(batch: int, dtype: torch.dtype) -> LaunchPlan:
    """Choose by what was measured (docs/log.md)."""
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
