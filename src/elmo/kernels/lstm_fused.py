"""One LSTM layer with projection and both clips, all directions together: the reference's call.

Only `h·W_h` and the projection have to go step by step; the products of the input, of the weights'
gradients and of the input's gradient are single ones over all steps. Input and state stand side by
side in one buffer, and so do their weights, so that a step can take both in one product where the
batch is large enough not to wait for weights. The steps themselves are `triton_lstm`'s.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import HALVES, arithmetic_of, can_fuse, on_device_of, wide_product
from elmo.kernels.direction import Direction, Walk

NEEDS = "Triton, a CUDA device of capability 8.0 or more, and float32, bfloat16 or float16"


@dataclass(frozen=True)
class Tile:
    """How a launch is cut: a tile's rows and columns, the depth of a step of its sum."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    split: int = 1
    """Parts of the sum that are computed side by side."""


@dataclass(frozen=True)
class Plan:
    """Which way a layer is computed; None for a product of the library's.

    Attributes:
        joint: input and state in one product at each step, not the input beforehand.
        gates: the product of a step, with the cell in its epilogue.
        projection: of the cell's output.
        recurrent: the gradient that goes to the step before.
    """

    joint: bool
    gates: Tile | None
    projection: Tile | None
    recurrent: Tile | None


CELL = Tile(rows=32, columns=64, depth=16, warps=4, stages=1)
"""For a cell whose product is the library's, and for its gradient."""
EXACT = Plan(joint=False, gates=None, projection=None, recurrent=None)
"""For float32: products are the library's, in the precision that is set there."""
BLOCK = 1024


def plan_for(batch: int, dtype: torch.dtype) -> Plan:
    """Choose by what was measured (docs/performance.md)."""
    if dtype not in HALVES:
        return EXACT
    rows = 16 if batch <= 16 else 32 if batch <= 32 else 64 if batch <= 64 else 128
    warps = 8 if rows == 128 else 4
    if batch <= 256:
        return Plan(
            joint=False,
            gates=Tile(rows, 64, 64, warps, 3),
            projection=Tile(rows, 64, 64, 4, 4, split=8),
            recurrent=Tile(rows, 128, 64, warps, 3, split=16),
        )
    return Plan(
        joint=batch >= 512,
        gates=Tile(128, 64, 64, 8, 3),
        projection=None,
        recurrent=None,
    )


def can_run(directions: Sequence[Direction]) -> bool:
    """Tell whether this is a call for a GPU that Triton knows, in a precision it computes in."""
    first = directions[0]
    return can_fuse(first.x) and all(
        arithmetic_of(direction.x) in (*HALVES, torch.float32)
        and direction.c.dtype == torch.float32
        and _alike(direction) == _alike(first)
        for direction in directions
    )


def _alike(direction: Direction) -> tuple[object, ...]:
    """Give what has to be the same in all directions of a call."""
    sizes = [direction.x.shape, direction.h.shape, direction.c.shape]
    clips = [direction.cell_clip, direction.projection_clip]
    return (direction.x.device, *sizes, *clips, direction.weight_hr is None)


def lstm(directions: Sequence[Direction]) -> list[Walk]:
    """Run a layer; all directions have the same shapes and clips.

    Gradients of gradients are not there, and a graph can be walked back once: the gates are
    overwritten by their gradients.
    """
    first = directions[0]
    inputs = [_input_of(direction) for direction in directions]
    n_steps, batch, dim = inputs[0].shape
    shape = _Shape(
        n_directions=len(directions),
        n_steps=n_steps,
        batch=batch,
        dim=dim,
        cell=first.c.shape[1],
        out=first.h.shape[1],
        projected=first.weight_hr is not None,
        cell_clip=first.cell_clip,
        projection_clip=first.projection_clip if first.weight_hr is not None else None,
        dtype=arithmetic_of(inputs[0]),
        training=False,
        n_rows=_rows_of_steps(directions, n_steps),
    )
    marks = _marks_of(directions, n_steps, inputs[0].device)
    tensors: list[Tensor | None] = []
    for x, direction in zip(inputs, directions, strict=True):
        tensors += [x, direction.weight_ih, direction.weight_hh, direction.bias]
        tensors += [direction.weight_hr, direction.h, direction.c]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        shape = dataclasses.replace(shape, training=True)
    with torch.autocast(inputs[0].device.type, enabled=False), on_device_of(inputs[0]):
        results = _Layer.apply(shape, marks, *tensors)  # type: ignore[no-untyped-call]
    walks = []
    for number, direction in enumerate(directions):
        out, h, c = results[3 * number : 3 * number + 3]
        walks.append((out.flip(0) if direction.reverse else out, h, c))
    return walks


def _input_of(direction: Direction) -> Tensor:
    """Give (time, batch, dim) in the order it is walked."""
    if direction.index is None:
        return direction.x.flip(0) if direction.reverse else direction.x
    index = direction.index.flip(0) if direction.reverse else direction.index
    return functional.embedding(index, direction.x)


def _rows_of_steps(directions: Sequence[Direction], n_steps: int) -> tuple[int, ...] | None:
    """Give the rows that have to be computed at each step, where they are not all."""
    counts = []
    for direction in directions:
        if direction.active is None or min(direction.active) == len(direction.h):
            return None
        counts.append(direction.active[::-1] if direction.reverse else direction.active)
    return tuple(max(1, *(count[step] for count in counts)) for step in range(n_steps))


def _marks_of(directions: Sequence[Direction], n_steps: int, device: torch.device) -> Tensor | None:
    """Give what each row is at each step, (directions, time, batch), or None where all is plain."""
    from elmo.kernels.triton_lstm import PADDING, RESET

    found = []
    for direction in directions:
        batch = len(direction.h)
        marks = None
        if direction.active is None:
            marks = (~direction.mask).to(torch.int8) * PADDING.value
        elif min(direction.active) < batch:
            counts = torch.tensor(direction.active)
            if device.type == "cuda":
                # A copy that nobody waits for.
                counts = counts.pin_memory().to(device, non_blocking=True)
            is_padding = torch.arange(batch, device=device) >= counts[:, None]
            marks = is_padding.to(torch.int8) * PADDING.value
        if direction.resets is not None:
            resets = direction.resets.to(torch.int8) * RESET.value
            marks = resets if marks is None else marks + resets
        if marks is not None and direction.reverse:
            marks = marks.flip(0)
        found.append(marks)
    if all(marks is None for marks in found):
        return None
    shape = (n_steps, len(directions[0].h))
    plain = torch.zeros(shape, dtype=torch.int8, device=device)
    return torch.stack([plain if marks is None else marks for marks in found])


@dataclass(frozen=True)
class _Shape:
    """Sizes and dials of a call.

    Attributes:
        dim: width of the input.
        cell: width of the cell.
        out: width of the output and the recurrent state.
        training: whether the steps are kept for the way back.
        n_rows: rows to compute at each step; None for all.
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

    @property
    def width(self) -> int:
        """Columns of input and state side by side."""
        return self.dim + self.out


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


class _Layer(torch.autograd.Function):
    """The layer with its gradient; tensors come and go as a flat list, seven a direction."""

    @staticmethod
    def forward(ctx: Any, shape: _Shape, marks: Tensor | None, *tensors: Tensor) -> Any:
        kept = _Buffers(shape, marks, tensors)
        kept.walk()
        ctx.shape, ctx.is_spent = shape, False
        ctx.kinds = [None if tensor is None else tensor.dtype for tensor in tensors]
        if shape.training:
            ctx.save_for_backward(*kept.saved())
        results: list[Tensor] = []
        for number in range(shape.n_directions):
            h = kept.states[number, -1, :, shape.dim :]
            results += [kept.outputs[number], h.clone(), kept.cells[number, -1].clone()]
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if ctx.is_spent:
            raise RuntimeError(
                "the fused LSTM can be walked back once; use kernel=reference for a second time"
            )
        ctx.is_spent = True
        found = _Gradients(ctx.shape, ctx.saved_tensors, gradients).walk(
            any(ctx.needs_input_grad[2::7])
        )
        typed = [
            None if value is None or kind is None else value.to(kind)
            for value, kind in zip(found, ctx.kinds, strict=True)
        ]
        return (None, None, *typed)


class _Buffers:
    """The forward pass and everything it leaves for the other."""

    def __init__(self, shape: _Shape, marks: Tensor | None, tensors: Sequence[Tensor]) -> None:
        self.shape = shape
        self.plan = plan_for(shape.batch, shape.dtype)
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
        has_gates = shape.training or not self.plan.joint or self.plan.gates is None
        self.gates = make(n, steps, batch, 4 * cell) if has_gates else make(1)
        self.marks = marks
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
        if marks is not None:
            is_reset = (marks[:, 0, :, None] & 1).bool()
            self.states[:, 0, :, shape.dim :].masked_fill_(is_reset, 0.0)

    def saved(self) -> tuple[Tensor | None, ...]:
        return (
            self.states,
            self.weight,
            self.projection,
            self.outputs,
            self.cells,
            self.hidden,
            self.gates,
            self.marks,
        )

    def walk(self) -> None:
        """Compute all steps."""
        shape, plan = self.shape, self.plan
        if not plan.joint:
            # The products of the input, all steps at once.
            torch.bmm(
                self.states[:, :-1, :, : shape.dim].flatten(1, 2),
                self.weight[:, :, : shape.dim].mT,
                out=self.gates.view(shape.n_directions, -1, 4 * shape.cell),
            )
        parts = self._make_parts()
        for step in range(shape.n_steps):
            # The way back multiplies what padding left by 0: it must be a number then.
            n_rows = shape.batch
            if shape.n_rows is not None and not shape.training:
                n_rows = shape.n_rows[step]
            slot = step if shape.training else 0
            self._cell(step, n_rows)
            if self.projection is not None:
                self._project(parts, slot, n_rows)
            self._finish(parts, step, slot)

    def _make_parts(self) -> Tensor:
        """Give the place where the projection's sums are left: (parts, directions, slots, …)."""
        shape = self.shape
        if self.projection is None:
            return self.hidden.unsqueeze(0)
        tile = self.plan.projection
        return torch.empty(
            (1 if tile is None else tile.split, shape.n_directions, 1, shape.batch, shape.out),
            dtype=shape.dtype if tile is None else torch.float32,
            device=self.states.device,
        )

    def _cell(self, step: int, n_rows: int) -> None:
        from elmo.kernels.triton_lstm import cell_forward

        shape, training = self.shape, self.shape.training
        tile = self.plan.gates
        if tile is None and self.plan.joint:
            torch.bmm(self.states[:, step], self.weight.mT, out=self.gates[:, step])
        elif tile is None:
            gates = self.gates[:, step]
            state = self.states[:, step, :, shape.dim :]
            torch.baddbmm(gates, state, self.weight[:, :, shape.dim :].mT, out=gates)
        cut = tile or CELL
        grid = (_tiles(n_rows, cut.rows) * _tiles(shape.cell, cut.columns), shape.n_directions)
        cell_forward[grid](
            self.states,
            self.weight,
            self.bias,
            self.gates,
            self.cells,
            self.hidden,
            self.states if self.marks is None else self.marks,
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
            READ_GATES=not self.plan.joint or tile is None,
            WRITE_GATES=training,
            CLIP=shape.cell_clip is not None,
            MARKED=self.marks is not None,
            FAST=_is_fast(shape),
            ROWS=cut.rows,
            UNITS=cut.columns,
            DEPTH=cut.depth,
            num_warps=cut.warps,
            num_stages=cut.stages,
        )

    def _project(self, parts: Tensor, slot: int, n_rows: int) -> None:
        tile = self.plan.projection
        assert self.projection is not None
        if tile is None:
            torch.bmm(self.hidden[:, slot], self.projection.mT, out=parts[0, :, 0])
            return
        _product(self.hidden, self.projection.mT, parts, slot=slot, n_rows=n_rows, tile=tile)

    def _finish(self, parts: Tensor, step: int, slot: int) -> None:
        from elmo.kernels.triton_lstm import finish_forward

        shape = self.shape
        grid = (_tiles(shape.batch * shape.out, BLOCK), shape.n_directions)
        finish_forward[grid](
            parts,
            self.states,
            self.outputs,
            self.states if self.marks is None else self.marks,
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
            MARKED=self.marks is not None,
            BLOCK=BLOCK,
        )


class _Gradients:
    """The backward pass over what the forward pass left."""

    def __init__(
        self,
        shape: _Shape,
        saved: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
    ) -> None:
        self.shape = shape
        self.plan = plan_for(shape.batch, shape.dtype)
        self.states, self.weight, self.projection, self.outputs = saved[:4]
        self.cells, self.hidden, self.gates, self.marks = saved[4:]
        self.upstream = torch.empty_like(self.outputs)
        self.d_outputs = self._stacked(gradients[0::3], self.outputs)
        self.d_h = self._stacked(gradients[1::3], self.states[:, -1, :, shape.dim :])
        self.d_c = self._stacked(gradients[2::3], self.cells[:, -1])
        self.kept = self.upstream
        if self.marks is not None:
            self.kept = torch.zeros_like(self.d_h, dtype=torch.float32)
        self.d_bias = torch.empty(
            (shape.n_directions, shape.n_steps, _tiles(shape.batch, CELL.rows), 4 * shape.cell),
            dtype=torch.float32,
            device=self.gates.device,
        )

    def _stacked(self, parts: Sequence[Tensor | None], like: Tensor) -> Tensor:
        """Put the gradients of all directions side by side; None is zero."""
        place = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        for number, part in enumerate(parts):
            if part is None:
                place[number].zero_()
            else:
                place[number].copy_(part)
        return place

    def walk(self, for_input: bool) -> list[Tensor | None]:
        """Go back through all steps; gives the gradients, seven a direction."""
        shape, dim = self.shape, self.shape.dim
        parts = self._first_parts()
        for step in reversed(range(shape.n_steps)):
            self._finish(parts, step)
            self._cell(step)
            self._recur(parts, step)
        d_h = parts[:, :, 0 if self.plan.joint else -1, :, -shape.out :].sum(dim=0).float()
        if self.marks is not None:
            is_reset = (self.marks[:, 0, :, None] & 1).bool()
            d_h = (d_h + self.kept).masked_fill_(is_reset, 0.0)
        # The products over all steps.
        gates = self.gates.flatten(1, 2)  # (directions, positions, 4 * cell)
        states = self.states[:, :-1].flatten(1, 2)
        d_ih = wide_product(gates.mT, states[:, :, :dim])
        d_hh = wide_product(gates.mT, states[:, :, dim:])
        d_bias = self.d_bias.sum(dim=(1, 2))
        d_projection: Tensor | None = None
        if self.projection is not None:
            d_projection = wide_product(self.upstream.flatten(1, 2).mT, self.hidden.flatten(1, 2))
        d_x: Tensor | None = None
        if for_input and self.plan.joint:
            d_x = parts[0, :, :-1, :, :dim]
        elif for_input:
            d_x = torch.bmm(gates, self.weight[:, :, :dim]).view(
                shape.n_directions, shape.n_steps, shape.batch, dim
            )
        found: list[Tensor | None] = []
        for number in range(shape.n_directions):
            found += [
                None if d_x is None else d_x[number],
                d_ih[number],
                d_hh[number],
                d_bias[number],
                None if d_projection is None else d_projection[number],
                d_h[number],
                self.d_c[number],
            ]
        return found

    def _first_parts(self) -> Tensor:
        """Give the gradient of the last state, where the steps leave theirs.

        (parts, directions, slots, batch, width): a slot for each step where the input's gradient
        is in it too, else one that is used again and again.
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

    def _finish(self, parts: Tensor, step: int) -> None:
        from elmo.kernels.triton_lstm import finish_backward

        shape = self.shape
        grid = (_tiles(shape.batch * shape.out, BLOCK), shape.n_directions)
        finish_backward[grid](
            parts,
            self.kept,
            self.d_outputs,
            self.outputs,
            self.upstream,
            self.upstream if self.marks is None else self.marks,
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
            MARKED=self.marks is not None,
            BLOCK=BLOCK,
        )

    def _cell(self, step: int) -> None:
        from elmo.kernels.triton_lstm import cell_backward

        shape = self.shape
        upstream, slot = self.upstream, step
        if self.projection is not None:
            upstream, slot = torch.bmm(self.upstream[:, step], self.projection).unsqueeze(1), 0
        n_tiles = _tiles(shape.batch, CELL.rows) * _tiles(shape.cell, CELL.columns)
        cell_backward[(n_tiles, shape.n_directions)](
            upstream,
            self.gates,
            self.cells,
            self.d_c,
            self.d_bias,
            upstream if self.marks is None else self.marks,
            step,
            slot,
            upstream.shape[1],
            shape.n_steps,
            shape.batch,
            shape.cell_clip or 0.0,
            CELL=shape.cell,
            CLIP=shape.cell_clip is not None,
            MARKED=self.marks is not None,
            FAST=_is_fast(shape),
            ROWS=CELL.rows,
            UNITS=CELL.columns,
            num_warps=CELL.warps,
        )

    def _recur(self, parts: Tensor, step: int) -> None:
        """Hand the gradient on to the state before, and to the input where both are one."""
        shape, tile = self.shape, self.plan.recurrent
        weight = self.weight if self.plan.joint else self.weight[:, :, shape.dim :]
        if tile is None:
            slot = step if self.plan.joint else 0
            torch.bmm(self.gates[:, step], weight, out=parts[0, :, slot])
        else:
            _product(self.gates, weight, parts, slot=step, n_rows=shape.batch, tile=tile)


@cache
def _bounds(clip: float | None, dtype: torch.dtype) -> tuple[float, float]:
    """Give the clip of the output as its type holds it, and the number under it."""
    bound = torch.tensor(clip or 0.0, dtype=dtype)
    return float(bound), float(torch.nextafter(bound, torch.zeros_like(bound)))


def _is_fast(shape: _Shape) -> bool:
    """Approximate where the numbers that come in and go out are coarser than that."""
    return shape.dtype in HALVES


def _product(a: Tensor, b: Tensor, parts: Tensor, *, slot: int, n_rows: int, tile: Tile) -> None:
    """Multiply (directions, slot, rows, sum) by (directions, sum, columns) into parts of sums."""
    from elmo.kernels.triton_lstm import product

    n_directions, _, batch, length = a.shape
    n_columns = b.shape[2]
    n_tiles = _tiles(n_rows, tile.rows) * _tiles(n_columns, tile.columns)
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
