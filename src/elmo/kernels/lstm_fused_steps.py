"""Forward and backward pass of the fused LSTM, computed step by step for all directions.

Input and state are concatenated in one buffer, and so are their weights. A step can therefore
multiply both in one product, which is faster for large batches. The kernels are in `triton_lstm`;
the launch plan determines which products use them and which use cuBLAS.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from elmo.kernels.device import HALF_DTYPES, wide_product
from elmo.kernels.lstm_fused_plan import BLOCK, CELL, LaunchPlan, LaunchTile


@dataclass(frozen=True)
class Shape:
    """Tensor sizes and options of a call to the fused LSTM.

    `out` is the width of the output and the recurrent state. In training, intermediate results are
    saved for the backward pass. `n_rows` is the number of rows to compute at each step, None for
    all.
    """

    n_directions: int
    n_steps: int
    batch: int
    dim: int
    cell: int
    out: int
    projected: bool
    cell_clip: float | None
    projection_clip: float | None
    dtype: torch.dtype
    training: bool
    n_rows: tuple[int, ...] | None
    plan: LaunchPlan

    @property
    def width(self) -> int:
        """Combined width of input and state."""
        return self.dim + self.out


def _count_tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _first_resets(flags: Tensor) -> Tensor:
    """Return whether each row is reset before its first step, (directions, batch, 1)."""
    from elmo.kernels.triton_lstm import RESET

    resets: Tensor = flags[:, 0, :, None] & RESET.value
    return resets.bool()


class Forward:
    """Forward pass, with the buffers that the backward pass reads."""

    def __init__(self, shape: Shape, flags: Tensor | None, tensors: Sequence[Tensor]) -> None:
        """Allocate the buffers and copy weights, input and state of each direction into them.

        The flags RESET and PADDING are those of each row at each step, (directions, time, batch).
        """
        self.shape = shape
        self.plan = shape.plan
        n, steps, batch, cell = shape.n_directions, shape.n_steps, shape.batch, shape.cell
        device = tensors[0].device

        def make(*sizes: int, dtype: torch.dtype = shape.dtype) -> Tensor:
            return torch.empty(sizes, dtype=dtype, device=device)

        self.states = make(n, steps + 1, batch, shape.width)
        self.weight = make(n, 4 * cell, shape.width)
        self.bias = make(n, 4 * cell, dtype=torch.float32)
        self.projection = make(n, shape.out, cell) if shape.projected else None
        self.outputs = make(n, steps, batch, shape.out)
        self.cells = make(n, steps + 1 if shape.training else 1, batch, cell, dtype=torch.float32)
        self.hidden = make(n, steps if shape.training else 1, batch, cell)
        has_gates = shape.training or not self.plan.joint
        self.gates = make(n, steps, batch, 4 * cell) if has_gates else make(1)
        self.flags = flags
        for number in range(n):
            x, ih, hh, bias, hr, h, c = tensors[7 * number : 7 * number + 7]
            self.states[number, :-1, :, : shape.dim].copy_(x)
            self.states[number, 0, :, shape.dim :].copy_(h)
            self.weight[number, :, : shape.dim].copy_(ih)
            self.weight[number, :, shape.dim :].copy_(hh)
            self.bias[number].copy_(bias)
            if self.projection is not None:
                self.projection[number].copy_(hr)
            self.cells[number, 0].copy_(c)
        if flags is not None:
            self.states[:, 0, :, shape.dim :].masked_fill_(_first_resets(flags), 0.0)

    def saved(self) -> tuple[Tensor | None, ...]:
        """Return the buffers that `Backward` needs."""
        return (
            self.states,
            self.weight,
            self.projection,
            self.outputs,
            self.cells,
            self.hidden,
            self.gates,
            self.flags,
        )

    def run(self) -> None:
        """Run all time steps."""
        shape, plan = self.shape, self.plan
        if not plan.joint:
            # The product of the input, for all steps at once.
            torch.bmm(
                self.states[:, :-1, :, : shape.dim].flatten(1, 2),
                self.weight[:, :, : shape.dim].mT,
                out=self.gates.view(shape.n_directions, -1, 4 * shape.cell),
            )
        parts = self._allocate_parts()
        for step in range(shape.n_steps):
            # The backward pass multiplies the values at padding by 0, so they must not be NaN.
            n_rows = shape.batch
            if shape.n_rows is not None and not shape.training:
                n_rows = shape.n_rows[step]
            slot = step if shape.training else 0
            self._compute_cell(step, n_rows)
            if self.projection is not None:
                self._project(parts, slot, n_rows)
            self._finish_step(parts, step, slot)

    def _allocate_parts(self) -> Tensor:
        """Return a buffer of partial sums, (parts, directions, slots, batch, out)."""
        shape = self.shape
        if self.projection is None:
            return self.hidden.unsqueeze(0)
        tile = self.plan.projection
        return torch.empty(
            (1 if tile is None else tile.split, shape.n_directions, 1, shape.batch, shape.out),
            dtype=shape.dtype if tile is None else torch.float32,
            device=self.states.device,
        )

    def _compute_cell(self, step: int, n_rows: int) -> None:
        from elmo.kernels.triton_lstm import cell_forward

        shape, training = self.shape, self.shape.training
        tile = self.plan.gates
        if tile is None:
            gates = self.gates[:, step]
            state = self.states[:, step, :, shape.dim :]
            torch.baddbmm(gates, state, self.weight[:, :, shape.dim :].mT, out=gates)
        launch = tile or CELL
        grid = (
            _count_tiles(n_rows, launch.rows) * _count_tiles(shape.cell, launch.columns),
            shape.n_directions,
        )
        cell_forward[grid](
            self.states,
            self.weight,
            self.bias,
            self.gates,
            self.cells,
            self.hidden,
            self.states if self.flags is None else self.flags,
            step,
            step if training else 0,
            step + 1 if training else 0,
            step,
            step if training else 0,
            shape.n_steps,
            self.cells.shape[1],
            shape.n_steps,
            self.hidden.shape[1],
            shape.batch,
            n_rows,
            shape.cell_clip or 0.0,
            CELL=shape.cell,
            WIDTH=shape.width,
            FIRST=0 if self.plan.joint else shape.dim,
            MULTIPLY=tile is not None,
            READ_GATES=not self.plan.joint,
            WRITE_GATES=training,
            CLIP=shape.cell_clip is not None,
            HAS_FLAGS=self.flags is not None,
            FAST=_is_fast(shape),
            ROWS=launch.rows,
            UNITS=launch.columns,
            DEPTH=launch.depth,
            num_warps=launch.warps,
            num_stages=launch.stages,
        )

    def _project(self, parts: Tensor, slot: int, n_rows: int) -> None:
        tile = self.plan.projection
        assert self.projection is not None
        if tile is None:
            torch.bmm(self.hidden[:, slot], self.projection.mT, out=parts[0, :, 0])
            return
        _product(self.hidden, self.projection.mT, parts, slot=slot, n_rows=n_rows, tile=tile)

    def _finish_step(self, parts: Tensor, step: int, slot: int) -> None:
        from elmo.kernels.triton_lstm import finish_forward

        shape = self.shape
        grid = (_count_tiles(shape.batch * shape.out, BLOCK), shape.n_directions)
        finish_forward[grid](
            parts,
            self.states,
            self.outputs,
            self.states if self.flags is None else self.flags,
            step,
            0 if shape.projected else slot,
            parts.shape[2],
            shape.n_steps,
            shape.batch,
            shape.projection_clip or 0.0,
            *_bounds(shape.projection_clip, shape.dtype),
            OUT=shape.out,
            WIDTH=shape.width,
            SPLIT=parts.shape[0],
            CLIP=shape.projection_clip is not None,
            HAS_FLAGS=self.flags is not None,
            BLOCK=BLOCK,
        )


class Backward:
    """Backward pass, which reads the buffers of the forward pass."""

    def __init__(
        self,
        shape: Shape,
        saved: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
    ) -> None:
        """Allocate buffers for the gradients of outputs, final h and final c, by direction."""
        self.shape = shape
        self.plan = shape.plan
        self.states, self.weight, self.projection, self.outputs = saved[:4]
        self.cells, self.hidden, self.gates, self.flags = saved[4:]
        self.upstream = torch.empty_like(self.outputs)
        self.d_outputs = self._stacked(gradients[0::3], self.outputs)
        self.d_h = self._stacked(gradients[1::3], self.states[:, -1, :, shape.dim :])
        self.d_c = self._stacked(gradients[2::3], self.cells[:, -1])
        self.carried = self.upstream
        if self.flags is not None:
            self.carried = torch.zeros_like(self.d_h, dtype=torch.float32)
        self.d_bias = torch.empty(
            (
                shape.n_directions,
                shape.n_steps,
                _count_tiles(shape.batch, CELL.rows),
                4 * shape.cell,
            ),
            dtype=torch.float32,
            device=self.gates.device,
        )

    def _stacked(self, parts: Sequence[Tensor | None], like: Tensor) -> Tensor:
        """Stack the gradients of all directions, with zeros for missing ones."""
        stacked = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        for number, part in enumerate(parts):
            if part is None:
                stacked[number].zero_()
            else:
                stacked[number].copy_(part)
        return stacked

    def run(self, needs_input_gradient: bool) -> list[Tensor | None]:
        """Run all steps backward and return the gradients of the tensors passed to `Forward`."""
        shape, dim = self.shape, self.shape.dim
        parts = self._initial_parts()
        for step in reversed(range(shape.n_steps)):
            self._finish_step(parts, step)
            self._compute_cell(step)
            self._propagate(parts, step)
        d_h = parts[:, :, 0 if self.plan.joint else -1, :, -shape.out :].sum(dim=0).float()
        if self.flags is not None:
            d_h = (d_h + self.carried).masked_fill_(_first_resets(self.flags), 0.0)
        # The products over all steps at once.
        gates = self.gates.flatten(1, 2)  # (directions, positions, 4 * cell)
        states = self.states[:, :-1].flatten(1, 2)
        d_ih = wide_product(gates.mT, states[:, :, :dim])
        d_hh = wide_product(gates.mT, states[:, :, dim:])
        d_bias = self.d_bias.sum(dim=(1, 2))
        d_projection: Tensor | None = None
        if self.projection is not None:
            d_projection = wide_product(self.upstream.flatten(1, 2).mT, self.hidden.flatten(1, 2))
        d_x: Tensor | None = None
        if needs_input_gradient and self.plan.joint:
            d_x = parts[0, :, :-1, :, :dim]
        elif needs_input_gradient:
            d_x = torch.bmm(gates, self.weight[:, :, :dim]).view(
                shape.n_directions, shape.n_steps, shape.batch, dim
            )
        results: list[Tensor | None] = []
        for number in range(shape.n_directions):
            results += [
                None if d_x is None else d_x[number],
                d_ih[number],
                d_hh[number],
                d_bias[number],
                None if d_projection is None else d_projection[number],
                d_h[number],
                self.d_c[number],
            ]
        return results

    def _initial_parts(self) -> Tensor:
        """Return a buffer for state gradients that contains the gradient of the final state.

        Its shape is (parts, directions, slots, batch, width). A joint product also computes the
        input gradient and has one slot per step; otherwise all steps share one slot.
        """
        shape, tile = self.shape, self.plan.recurrent
        n_slots, width = (shape.n_steps + 1, shape.width) if self.plan.joint else (1, shape.out)
        parts = torch.empty(
            (1 if tile is None else tile.split, shape.n_directions, n_slots, shape.batch, width),
            dtype=shape.dtype if tile is None else torch.float32,
            device=self.gates.device,
        )
        parts[0, :, -1, :, -shape.out :].copy_(self.d_h)
        parts[1:].zero_()
        return parts

    def _finish_step(self, parts: Tensor, step: int) -> None:
        from elmo.kernels.triton_lstm import finish_backward

        shape = self.shape
        grid = (_count_tiles(shape.batch * shape.out, BLOCK), shape.n_directions)
        finish_backward[grid](
            parts,
            self.carried,
            self.d_outputs,
            self.outputs,
            self.upstream,
            self.upstream if self.flags is None else self.flags,
            step,
            step + 1 if self.plan.joint else 0,
            parts.shape[2],
            shape.n_steps,
            shape.batch,
            _bounds(shape.projection_clip, shape.dtype)[0],
            OUT=shape.out,
            PART=parts.shape[4],
            SPLIT=parts.shape[0],
            CLIP=shape.projection_clip is not None,
            HAS_FLAGS=self.flags is not None,
            BLOCK=BLOCK,
        )

    def _compute_cell(self, step: int) -> None:
        from elmo.kernels.triton_lstm import cell_backward

        shape = self.shape
        upstream, slot = self.upstream, step
        if self.projection is not None:
            upstream, slot = torch.bmm(self.upstream[:, step], self.projection).unsqueeze(1), 0
        n_tiles = _count_tiles(shape.batch, CELL.rows) * _count_tiles(shape.cell, CELL.columns)
        cell_backward[(n_tiles, shape.n_directions)](
            upstream,
            self.gates,
            self.cells,
            self.d_c,
            self.d_bias,
            upstream if self.flags is None else self.flags,
            step,
            slot,
            upstream.shape[1],
            shape.n_steps,
            shape.batch,
            shape.cell_clip or 0.0,
            CELL=shape.cell,
            CLIP=shape.cell_clip is not None,
            HAS_FLAGS=self.flags is not None,
            FAST=_is_fast(shape),
            ROWS=CELL.rows,
            UNITS=CELL.columns,
            num_warps=CELL.warps,
        )

    def _propagate(self, parts: Tensor, step: int) -> None:
        """Compute the gradient of the previous state and, with a joint product, of the input."""
        shape, tile = self.shape, self.plan.recurrent
        weight = self.weight if self.plan.joint else self.weight[:, :, shape.dim :]
        if tile is None:
            slot = step if self.plan.joint else 0
            torch.bmm(self.gates[:, step], weight, out=parts[0, :, slot])
        else:
            _product(self.gates, weight, parts, slot=step, n_rows=shape.batch, tile=tile)


@cache
def _bounds(clip: float | None, dtype: torch.dtype) -> tuple[float, float]:
    """Return the clip bound rounded to a dtype, and the next smaller value of that dtype."""
    bound = torch.tensor(clip or 0.0, dtype=dtype)
    return float(bound), float(torch.nextafter(bound, torch.zeros_like(bound)))


def _is_fast(shape: Shape) -> bool:
    """Whether to approximate activations: in half precision, rounding errors are larger anyway."""
    return shape.dtype in HALF_DTYPES


def _product(
    a: Tensor, b: Tensor, parts: Tensor, *, slot: int, n_rows: int, tile: LaunchTile
) -> None:
    """Multiply a (directions, slots, rows, k) by b (directions, k, columns); write to `parts`."""
    from elmo.kernels.triton_lstm import product

    n_directions, _, batch, length = a.shape
    n_columns = b.shape[2]
    n_tiles = _count_tiles(n_rows, tile.rows) * _count_tiles(n_columns, tile.columns)
    product[(n_tiles, n_directions, tile.split)](
        a,
        b,
        parts,
        slot,
        a.shape[1],
        batch,
        n_rows,
        b.stride(0),
        N=n_columns,
        K=length,
        B_ROW=b.stride(1),
        B_COLUMN=b.stride(2),
        SPLIT=tile.split,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        DEPTH=tile.depth,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
