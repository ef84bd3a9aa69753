"""LSTM kernel for CPUs that uses the native library, without gradients.

Each thread task computes one direction for a range of rows, in chunks of a few time steps. Tasks do
not wait for each other. The result of a row does not depend on the other rows, bit for bit.
Therefore the state after the boundary token, with which all rows begin, is computed only once.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.kernels.lstm_call import LSTMCall, LSTMResult
from elmo.kernels.lstm_native_rows import RowState, blocked_cells, reorder_cells, split_steps
from elmo.kernels.native_ffi import (
    BYTES_PER_NUMBER,
    PANEL,
    ROW_BLOCK,
    ROW_MULTIPLE,
    TILE,
    Epilogue,
    NumberFormat,
    PackedRows,
    PackedWeights,
    allocate_aligned,
    are_valid_indices,
    can_compute,
    gather_rows,
    interleave,
    is_float32_inference,
    multiply,
    native_function,
    pack_matrix,
    projection_format,
    scratch,
)
from elmo.kernels.native_structs import LSTMArgs
from elmo.kernels.native_threads import MIN_TASK_WORK, round_up, run_tasks, split_range
from elmo.kernels.weight_snapshot import WeightSnapshot

# All widths must be a multiple of this.
WIDTH_MULTIPLE = 64
# Positions of a turn, at most: the gates that are computed for it stay in the L3 cache.
MAX_TURN_POSITIONS = 1024
# Multiplications of a turn, unless ROW_BLOCK positions need more: 20 ms with AMX, 250 ms on a slow
# core. Threads on shared cores are not equally fast; at the end of a layer all but the slowest
# thread are idle for half a turn on average.
TURN_WORK: dict[NumberFormat, int] = {
    "float32": 2**32,
    "int8x3": 2**33,
    "bfloat16": 2**34,
    "int8": 2**34,
}
# Fewer rows are not split for load balance: each task reads all weights at each step, and the
# products would wait for memory.
MIN_TASK_ROWS: dict[NumberFormat, int] = {
    "float32": 64,
    "int8x3": 96,
    "bfloat16": 96,
    "int8": 96,
}
# Units that are projected together, at most: eight AMX tiles.
MAX_UNIT_BLOCK = 256
# Formats whose gates are stored in bfloat16.
LOW_PRECISION: tuple[NumberFormat, ...] = ("bfloat16", "int8")
# The gates of each distinct input are computed once, not at each position, up to this many bytes.
SHARED_BYTES = 2**28
# With fewer rows times recurrent weights a step takes less time than the comparison of the rows.
MIN_FIRST_STEP_WORK: dict[NumberFormat, int] = {
    "float32": 2**23,
    "int8x3": 2**24,
    "bfloat16": 2**26,
    "int8": 2**26,
}


def can_run(directions: Sequence[LSTMCall], number_format: NumberFormat) -> bool:
    """Whether no gradients are needed and the native library supports the calls on this CPU."""
    return all(map(_is_supported, directions)) and can_compute(number_format)


def has_native_widths(widths: Iterable[int]) -> bool:
    """Whether the native library supports the dimensions of an LSTM: input, output and cell."""
    return all(width % WIDTH_MULTIPLE == 0 for width in widths)


def _is_supported(direction: LSTMCall) -> bool:
    weights = (direction.weight_ih, direction.weight_hh)
    widths = (direction.weight_ih.shape[1], direction.h.shape[1], direction.c.shape[1])
    return (
        is_float32_inference(direction.x, *weights, direction.h, direction.c)
        and has_native_widths(widths)
        and direction.active is not None
        and direction.resets is None
        and (direction.index is None or are_valid_indices(direction.index, len(direction.x)))
    )


def lstm(
    directions: Sequence[LSTMCall], snapshot: WeightSnapshot, number_format: NumberFormat
) -> list[LSTMResult]:
    """Run the layer over all time steps in each direction; see `lstm_reference.lstm`."""
    n_parts = _count_parts(len(directions), directions[0].h.shape[0], number_format)
    layers = [_NativeLayer(call, snapshot, number_format, n_parts) for call in directions]
    run_tasks(task for layer in layers for task in layer.input_tasks())
    # All tasks are prepared before the first one starts.
    run_tasks([task for layer in layers for task in layer.step_tasks()])
    return [(layer.outputs, layer.h, layer.c) for layer in layers]


def _count_parts(n_directions: int, n_rows: int, number_format: NumberFormat) -> int:
    """Return the number of tasks among which the rows of each direction are divided.

    With enough rows there are two tasks per thread, so that a thread slowed down by other
    processes can run fewer of them.
    """
    n_threads = torch.get_num_threads()
    least = -(-n_threads // n_directions)
    balanced = min(2 * least, n_rows // MIN_TASK_ROWS[number_format])
    return max(least, balanced) if n_threads > 1 else 1


# The gates i, f, g, o alternate in blocks of sixteen units.
_interleave_gates = partial(interleave, 4)


class _FirstStep(NamedTuple):
    """Result of a first step from a zero state, and what it depends on other than the weights."""

    bias: Tensor
    clips: tuple[float | None, float | None]
    x: Tensor
    h: Tensor
    c: Tensor


class _Turn(NamedTuple):
    """Steps that a thread computes at a time.

    `inputs` are the rows of the layer's input whose gates the turn computes first; None if the
    gates of all inputs are computed before.
    """

    steps: range
    inputs: Tensor | None


class _PreparedRows(NamedTuple):
    """A range of rows, ready to be computed turn by turn.

    Attributes:
        rows: State and outputs.
        c: Cell states, which are written after the last turn.
        active: Number of rows at each step.
        gate_index: Index of the gates at each position, (time, rows of the batch).
        turns: The turns, in the order in which they are computed.
    """

    rows: RowState
    c: Tensor
    active: Tensor
    gate_index: Tensor
    turns: list[_Turn]


class _NativeLayer:
    """One direction of a layer: packed weights, buffers, and the tasks that compute it."""

    def __init__(
        self,
        direction: LSTMCall,
        snapshot: WeightSnapshot,
        number_format: NumberFormat,
        n_parts: int,
    ) -> None:
        assert direction.active is not None
        self.direction = direction
        self.snapshot = snapshot
        self.number_format = number_format
        self.active = torch.tensor(direction.active, dtype=torch.int64)
        self.batch, self.out = direction.h.shape
        self.cell = direction.c.shape[1]
        self.block = gcd(self.cell, MAX_UNIT_BLOCK)
        self.n_steps = len(direction.active)
        # Contiguous copies, which are updated in place.
        self.h, self.c = (
            state.clone(memory_format=torch.contiguous_format)
            for state in (direction.h, direction.c)
        )
        make = torch.empty if min(direction.active, default=0) == self.batch else torch.zeros
        self.outputs = make(self.n_steps, self.batch, self.out)
        self.inputs = self._pack_gates(direction.weight_ih)
        self.recurrent = self._pack_gates(direction.weight_hh)
        self.projection_format = projection_format(number_format)
        self.projection = self._pack_projection(direction.weight_hr)
        self.bias = _interleave_gates(direction.bias.detach()).contiguous()
        self.x = direction.x.detach().flatten(0, -2).contiguous()
        self.index = None if direction.index is None else direction.index.long().contiguous()
        self.gate_bytes = 4 * self.cell * (2 if number_format in LOW_PRECISION else 4)
        weights = (self.inputs, self.recurrent, self.projection)
        work = sum(weight.n * weight.k for weight in weights if weight is not None)
        turn_positions = max(ROW_BLOCK, TURN_WORK[number_format] // work)
        self.turn_positions = min(MAX_TURN_POSITIONS, turn_positions)
        self.parts = list(self._split_rows(n_parts))
        self.shared_gates: Tensor | None = None
        self.has_shared_gates = False

    def _pack_gates(self, weight: Tensor) -> PackedWeights:
        def pack() -> PackedWeights:
            return pack_matrix(_interleave_gates(weight.detach()), self.number_format)

        return self.snapshot.copy([weight], f"gates {self.number_format}", pack)

    def _pack_projection(self, weight: Tensor | None) -> PackedWeights | None:
        if weight is None:
            return None

        def pack() -> PackedWeights:
            return pack_matrix(weight.detach(), self.projection_format, self.block)

        return self.snapshot.copy([weight], f"projection {self.projection_format}", pack)

    @cached_property
    def lengths(self) -> Tensor:
        """Number of steps of each row."""
        return (self.active[:, None] > torch.arange(self.batch)).sum(dim=0)

    def _split_rows(self, n_parts: int) -> Iterator[tuple[int, int]]:
        """Split the rows into ranges with about the same number of tokens."""
        first = 0
        for part in range(1, n_parts + 1):
            last = self.batch
            if part < n_parts:
                ends = self.lengths.cumsum(dim=0) * n_parts
                last = int((ends <= part * self.lengths.sum()).sum())
                last = min(round_up(last, TILE), self.batch)
            if last > first:
                yield first, last
                first = last

    def input_tasks(self) -> list[Callable[[], None]]:
        """Return the tasks to run first: they compute the gate contributions of all inputs."""
        if self.index is None or len(self.x) * self.gate_bytes > SHARED_BYTES:
            return []
        self.shared_gates = allocate_aligned(len(self.x) * self.gate_bytes)
        work = len(self.x) * self.inputs.k
        if len(self.parts) == 1 and 4 * self.cell * work < MIN_TASK_WORK:
            return []  # the only step task computes them before its first step
        rows = gather_rows(self.x, None, self.number_format)
        self.has_shared_gates = True
        column_ranges = split_range(4 * self.cell, PANEL, work)
        out = self.shared_gates.data_ptr()
        return [partial(self._multiply_inputs, rows, out, columns) for columns in column_ranges]

    def _multiply_inputs(self, rows: PackedRows, out: int, columns: tuple[int, int]) -> None:
        """Compute the contribution of inputs to the gates."""
        args = (self.inputs, self.bias, self.number_format)
        multiply(rows, *args, out, columns, Epilogue.GATES)

    def step_tasks(self) -> Iterator[Callable[[], bool]]:
        """Prepare and yield one task per range of rows; each call of a task computes one turn."""
        for first, last in self.parts:
            yield partial(next, self._run_turns(self._prepare_rows(first, last)), False)

    def _prepare_rows(self, first: int, last: int) -> _PreparedRows:
        """Prepare a range of rows, so that its thread needs the interpreter lock only briefly."""
        n_done = self._take_first_step(first, last)
        cells = blocked_cells(self.c[first:last])
        rows = RowState(self.batch, self.h[first:last], cells, self.outputs[:, first:])
        active = self.active
        if last - first < self.batch:
            active = (active - first).clamp(0, last - first)
        remaining = range(n_done, self.n_steps)
        if self.direction.reverse:
            # Reversed rows begin at their last token: without the done steps each row ends
            # `n_done` steps earlier.
            active, remaining = active[n_done:], range(self.n_steps - n_done)
        ranges = list(split_steps(active.tolist(), self.turn_positions, remaining))
        if self.shared_gates is not None:
            assert self.index is not None
            gate_index = self.index[:, first:]
            turns = [_Turn(steps, None) for steps in ranges]
        else:
            gate_index, turns = self._turns_with_inputs(first, last, active, ranges)
        if self.direction.reverse:
            turns.reverse()
        return _PreparedRows(rows, self.c[first:last], active, gate_index, turns)

    def _turns_with_inputs(
        self, first: int, last: int, active: Tensor, ranges: Sequence[range]
    ) -> tuple[Tensor, list[_Turn]]:
        """Return the turns of a range of rows with their inputs, which are without padding.

        Also returns the index of the gates at each position among those of its turn.
        """
        positions = torch.arange(len(active))[:, None], torch.arange(first, last)
        inputs = self._inputs_at(*positions)[torch.arange(last - first) < active[:, None]]
        ends = [0, *active.cumsum(dim=0).tolist()]
        starts = torch.tensor(ends[:-1])
        turns = []
        for steps in ranges:
            start = ends[steps.start]
            turns.append(_Turn(steps, inputs[start : ends[steps.stop]]))
            starts[steps.start : steps.stop] -= start
        return starts[:, None] + torch.arange(self.batch), turns

    @torch.inference_mode()  # the mode of the caller does not apply to our threads
    def _run_turns(self, prepared: _PreparedRows) -> Iterator[bool]:
        """Compute a range of rows turn by turn; yield True after each turn."""
        if self.shared_gates is not None and not self.has_shared_gates:
            rows = gather_rows(self.x, None, self.number_format)
            self._multiply_inputs(rows, self.shared_gates.data_ptr(), (0, 4 * self.cell))
        for steps, inputs in prepared.turns:
            if inputs is not None:
                gates, n_inputs = self._compute_gates(inputs)
            else:
                assert self.shared_gates is not None
                gates, n_inputs = self.shared_gates.data_ptr(), len(self.x)
            index = prepared.gate_index
            self._run_steps(prepared.rows, prepared.active, gates, n_inputs, index, steps)
            yield True
        reorder_cells(prepared.c, prepared.rows.cells, is_reverse=True)

    def _inputs_at(self, steps: Tensor, rows: Tensor) -> Tensor:
        """Return the row of `x` that is the input at each of the given positions."""
        return steps * self.batch + rows if self.index is None else self.index[steps, rows]

    def _compute_gates(self, inputs: Tensor) -> tuple[int, int]:
        """Compute the gate contribution of inputs; return its address and the number of inputs."""
        gates = scratch("gates", max(1, len(inputs)) * self.gate_bytes)
        rows = gather_rows(self.x, inputs, self.number_format)
        self._multiply_inputs(rows, gates, (0, 4 * self.cell))
        return gates, len(inputs)

    def _run_steps(
        self,
        rows: RowState,
        active: Tensor,
        gates: int,
        n_inputs: int,
        index: Tensor,
        steps: range,
    ) -> None:
        """Run steps for a range of rows, given the contribution of the inputs to the gates."""
        # A multiple of the row padding here (ROW_MULTIPLE) and in native.c (32).
        n_padded, size = round_up(len(rows.h), 2 * ROW_MULTIPLE), BYTES_PER_NUMBER
        direction, projection = self.direction, self.projection
        args = LSTMArgs(
            cell=self.cell,
            out=self.out,
            batch=rows.batch,
            first_step=steps.start,
            last_step=steps.stop,
            reverse=direction.reverse,
            rows=len(rows.h),
            n_inputs=n_inputs,
            block=self.block,
            cell_clip=direction.cell_clip or 0.0,
            projection_clip=direction.projection_clip or 0.0,
            gates=gates,
            index=index.data_ptr(),
            active=active.data_ptr(),
            recurrent=self.recurrent.values.data_ptr(),
            recurrent_scale=self.recurrent.scale.data_ptr(),
            projection=None if projection is None else projection.values.data_ptr(),
            cells=rows.cells.data_ptr(),
            h=rows.h.data_ptr(),
            outputs=rows.outputs.data_ptr(),
            state=scratch("state", n_padded * self.out * size[self.number_format]),
            state_scale=scratch("state scales", 4 * n_padded),
            hidden=scratch("hidden", n_padded * self.block * size[self.projection_format]),
            projection_sums=scratch("projection sums", n_padded * self.out * 4),
            gate_sums=scratch("gate sums", 2 * n_padded * 3 * 4 * TILE * 4),
        )
        native_function(f"lstm_{self.number_format}")(ctypes.byref(args))

    # -------------------------------------------------------------- first step

    def _take_first_step(self, first: int, last: int) -> int:
        """Compute the first step of rows once if all begin alike; return the number of steps done.

        Sentences begin with the same boundary token, so the state after it is kept for later calls.
        """
        n_rows, least = last - first, MIN_FIRST_STEP_WORK[self.number_format]
        if n_rows * 4 * self.cell * self.out < least:
            return 0
        lengths = self.lengths[first:last]
        if lengths.min() < 1:
            return 0
        if self.h[first:last].any() or self.c[first:last].any():
            return 0
        rows = torch.arange(first, last)
        steps = lengths - 1 if self.direction.reverse else torch.zeros_like(lengths)
        inputs = self._inputs_at(steps, rows)
        x = self.x[inputs]
        if not torch.equal(x, x[:1].expand_as(x)):
            return 0
        if (state := self._state_after(inputs[:1], n_rows)) is None:
            return 0
        h, c = state
        self.outputs[steps, rows] = h
        self.h[first:last], self.c[first:last] = h, c
        return 1

    def _state_after(self, first_input: Tensor, n_rows: int) -> tuple[Tensor, Tensor] | None:
        """Return h and c after the first input, (1, width), kept for later calls.

        Returns None for a single row if the state after another input is kept, because a separate
        step would read all weights a second time.
        """
        call = self.direction
        weights = [call.weight_hh, call.weight_ih]
        if call.weight_hr is not None:
            weights.append(call.weight_hr)
        layout = f"first step {self.number_format}"
        kept: list[_FirstStep] = self.snapshot.copy(weights, layout, list)
        x, clips = self.x[first_input], (call.cell_clip, call.projection_clip)
        for step in kept:
            is_same = step.clips == clips and torch.equal(step.bias, self.bias)
            if is_same and torch.equal(step.x, x):
                return step.h, step.c
        if kept and n_rows == 1:
            return None
        h, c = self.h.new_zeros(1, self.out), self.c.new_zeros(1, self.cell)
        rows = RowState(1, h, blocked_cells(c), torch.empty(1, 1, self.out))
        gates = (*self._compute_gates(first_input), torch.zeros(1, 1, dtype=torch.int64))
        self._run_steps(rows, torch.ones(1, dtype=torch.int64), *gates, range(1))
        reorder_cells(c, rows.cells, is_reverse=True)
        kept[:] = [_FirstStep(self.bias, clips, x, h, c)]
        return h, c
