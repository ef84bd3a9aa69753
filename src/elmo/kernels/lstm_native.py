"""LSTM kernel for CPUs that uses the native library, without gradients.

Each thread task computes one direction for a range of rows, in chunks of a few time steps. Tasks do
not wait for each other. The result of a row does not depend on the other rows, bit for bit.
Therefore rows with a common prefix are computed only once until they differ, and the result of the
first step (the begin-of-sentence token) is cached.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.kernels.compute_precision import current_precision
from elmo.kernels.lstm_call import LSTMCall, LSTMResult
from elmo.kernels.native_ffi import (
    BYTES_PER_NUMBER,
    MIN_TASK_WORK,
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
    format_for,
    gather_rows,
    interleave,
    is_float32_inference,
    multiply,
    native_function,
    pack_weight,
    projection_format,
    round_up,
    run_tasks,
    scratch,
    split_range,
)
from elmo.kernels.packing import pack_once

NEEDS = (
    "a CPU with a C compiler (for int8 with AMX, AVX512-VNNI or ARM's dot products, for bfloat16 "
    "with AMX or AVX512-BF16), widths that are multiples of 64, known lengths, no resets and no "
    "gradient"
)

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
# Rows with a common prefix are computed as one if that saves at least this fraction of the rows.
MIN_SHARED_FRACTION = 0.2
# With fewer rows times bytes of weights a step takes less time than the search for equal rows.
MIN_PREFIX_WORK = 2**22


def can_run(directions: Sequence[LSTMCall]) -> bool:
    """Whether no gradients are needed and the native library supports the calls on this CPU."""
    return all(map(_is_supported, directions)) and can_compute(format_for(current_precision()))


def _is_supported(direction: LSTMCall) -> bool:
    weights = (direction.weight_ih, direction.weight_hh)
    widths = (direction.weight_ih.shape[1], direction.h.shape[1], direction.c.shape[1])
    return (
        is_float32_inference(direction.x, *weights, direction.h, direction.c)
        and all(width % WIDTH_MULTIPLE == 0 for width in widths)
        and direction.active is not None
        and direction.resets is None
        and (direction.index is None or are_valid_indices(direction.index, len(direction.x)))
    )


def lstm(directions: Sequence[LSTMCall]) -> list[LSTMResult]:
    """Run the layer over all time steps in each direction; see `lstm_reference.lstm`."""
    number_format = format_for(current_precision())
    n_parts = _count_parts(len(directions), directions[0].h.shape[0], number_format)
    layers = [_NativeLayer(direction, number_format, n_parts) for direction in directions]
    run_tasks(task for layer in layers for task in layer.input_tasks())
    run_tasks(task for layer in layers for task in layer.step_tasks())
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


class _LSTMArgs(ctypes.Structure):
    """The struct `lstm_args` in native.c."""

    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                *("cell", "out", "batch", "first_step", "last_step", "reverse"),
                *("rows", "n_inputs", "block"),
            )
        ),
        *((name, ctypes.c_float) for name in ("cell_clip", "projection_clip")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("gates", "index", "active"),
                *("recurrent", "recurrent_scale", "projection"),
                *("cells", "h", "outputs", "state", "state_scale", "hidden", "projection_sums"),
                "gate_sums",
            )
        ),
    )


class _RowState(NamedTuple):
    """State and outputs of a range of rows, updated by the native kernel.

    Attributes:
        batch: Number of rows per step in `outputs`.
        h: Hidden states, (rows, out).
        cells: Cell states in the layout of native.c, (cell / 16, rows, 16).
        outputs: Outputs, (time, rows, out).
    """

    batch: int
    h: Tensor
    cells: Tensor
    outputs: Tensor


class _FirstStep(NamedTuple):
    """Cached result of a first step from a zero state, and everything the result depends on."""

    inputs: PackedWeights
    projection: PackedWeights | None
    bias: Tensor
    clips: tuple[float | None, float | None]
    x: Tensor
    h: Tensor
    c: Tensor


class _NativeLayer:
    """One direction of a layer: packed weights, buffers, and the tasks that compute it."""

    def __init__(self, direction: LSTMCall, number_format: NumberFormat, n_parts: int) -> None:
        assert direction.active is not None
        self.direction = direction
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
        self.inputs = pack_weight(direction.weight_ih, number_format, "gates", _interleave_gates)
        self.recurrent = pack_weight(direction.weight_hh, number_format, "gates", _interleave_gates)
        self.projection_format = projection_format(number_format)
        self.projection: PackedWeights | None = None
        if direction.weight_hr is not None:
            self.projection = pack_weight(
                direction.weight_hr, self.projection_format, "blocks", block=self.block
            )
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
        """Yield one task per range of rows; each call of a task computes one turn of steps."""
        for first, last in self.parts:
            yield partial(next, self._run_turns(first, last), False)

    @torch.inference_mode()  # the mode of the caller does not apply to our threads
    def _run_turns(self, first: int, last: int) -> Iterator[bool]:
        """Compute a range of rows turn by turn; yield True after each turn."""
        if self.shared_gates is not None and not self.has_shared_gates:
            inputs = gather_rows(self.x, None, self.number_format)
            self._multiply_inputs(inputs, self.shared_gates.data_ptr(), (0, 4 * self.cell))
        n_done = self._run_common_prefixes(first, last)
        c = self.c[first:last]
        rows = _RowState(self.batch, self.h[first:last], _blocked_cells(c), self.outputs[:, first:])
        active = self.active
        if last - first < self.batch:
            active = (active - first).clamp(0, last - first)
        remaining = range(n_done, self.n_steps)
        if self.direction.reverse:
            # Reversed rows begin at their last token: without the done steps each row ends
            # `n_done` steps earlier.
            active, remaining = active[n_done:], range(self.n_steps - n_done)
        counts = active.tolist()
        turns = list(_split_steps(counts, self.turn_positions, remaining))
        for steps in reversed(turns) if self.direction.reverse else turns:
            self._run_steps(rows, active, *self._gates_at(first, last, counts, steps), steps)
            yield True
        _reorder_cells(c, rows.cells, is_reverse=True)

    def _gates_at(
        self, first: int, last: int, counts: Sequence[int], steps: range
    ) -> tuple[int, int, Tensor]:
        """Return the contribution of the inputs to the gates for a range of rows and steps.

        Args:
            first: First row.
            last: End of the row range (exclusive).
            counts: Number of rows at each step.
            steps: Steps of the range.

        Returns:
            Address of the gates, number of inputs, and index of the input at each position.
        """
        if self.shared_gates is not None:
            assert self.index is not None
            return self.shared_gates.data_ptr(), len(self.x), self.index[:, first:]
        turn = slice(steps.start, steps.stop)
        if self.index is None and all(count == self.batch for count in counts[turn]):
            # The inputs of the turn are contiguous and without padding.
            start = steps.start * self.batch
            gates, n_inputs = self._compute_gates(torch.arange(start, steps.stop * self.batch))
            return gates, n_inputs, torch.arange(-start, self.n_steps * self.batch - start)
        is_real = torch.arange(last - first) < torch.tensor(counts[turn])[:, None]
        # The inputs of all positions without padding, and the row of their gates.
        step, row = is_real.nonzero(as_tuple=True)
        gates, n_inputs = self._compute_gates(self._inputs_at(step + steps.start, row + first))
        gate_rows = torch.zeros(self.n_steps, self.batch, dtype=torch.int64)
        gate_rows[turn, : last - first][is_real] = torch.arange(n_inputs)
        return gates, n_inputs, gate_rows

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
        rows: _RowState,
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
        args = _LSTMArgs(
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

    # -------------------------------------------------------------- rows with a common prefix

    def _run_common_prefixes(self, first: int, last: int) -> int:
        """Run the first steps once per group of rows with equal prefixes; return the step count."""
        if (last - first) * self.recurrent.values.numel() < MIN_PREFIX_WORK:
            return 0
        if self.h[first:last].any() or self.c[first:last].any():
            return 0
        rows, lengths = torch.arange(first, last), self.lengths[first:last]
        # Row i has the state `h[group[i]]`, `c[group[i]]`.
        group = torch.zeros_like(rows)
        h, c = self.h.new_zeros(1, self.out), self.c.new_zeros(1, self.cell)
        # A single row shares its first step with earlier calls, and no further step.
        n_limit = min(int(lengths.min()), 1 if len(rows) == 1 else self.n_steps)
        n_done = 0
        while n_done < n_limit:
            last_steps = lengths - 1 - n_done
            steps = last_steps if self.direction.reverse else torch.full_like(rows, n_done)
            inputs = self._inputs_at(steps, rows)
            new_group, leaders = self._group_rows(group, inputs)
            state = None
            if n_done == 0 and len(leaders) == 1:
                state = self._run_first_step(inputs[:1], len(rows))
            elif len(leaders) <= (1 - MIN_SHARED_FRACTION) * len(rows):
                state = self._run_one_step(inputs[leaders], h[group[leaders]], c[group[leaders]])
            if state is None:
                break
            group, (h, c) = new_group, state
            self.outputs[steps, rows] = h[group]
            n_done += 1
        if n_done > 0:
            self.h[first:last], self.c[first:last] = h[group], c[group]
        return n_done

    def _group_rows(self, group: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Group rows that have the same state after one more input.

        Args:
            group: Current group of each row.
            inputs: Next input of each row.

        Returns:
            New group of each row, and one row (the leader) per group.
        """
        if len(group) == 1:
            return group, group
        keys = inputs
        if self.index is None:
            # Inputs of an upper layer have no ids: they are equal if their bits are.
            bits = self.x[inputs].view(torch.int32)
            keys = (bits.long() * torch.arange(1, 2 * bits.shape[1], 2)).sum(dim=1)
        new_group = torch.unique(torch.stack([group, keys]), dim=1, return_inverse=True)[1]
        leaders = torch.empty(int(new_group.max()) + 1, dtype=torch.int64)
        leaders[new_group] = torch.arange(len(group))
        if self.index is None and not torch.equal(bits, bits[leaders[new_group]]):
            return torch.arange(len(group)), torch.arange(len(group))
        return new_group, leaders

    def _run_first_step(self, inputs: Tensor, n_rows: int) -> tuple[Tensor, Tensor] | None:
        """Return h and c after the first step, from the cache if possible.

        Returns None for a single row if a different first step is cached, because a separate step
        would read all weights a second time.
        """
        cached: list[_FirstStep] = pack_once(
            self.direction.weight_hh, f"first step {self.number_format}", lambda _: []
        )
        x, clips = self.x[inputs], (self.direction.cell_clip, self.direction.projection_clip)
        for step in cached:
            if (
                (step.inputs is self.inputs and step.projection is self.projection)
                and step.clips == clips
                and torch.equal(step.bias, self.bias)
                and torch.equal(step.x, x)
            ):
                return step.h, step.c
        if cached and n_rows == 1:
            return None
        zero_h, zero_c = self.h.new_zeros(1, self.out), self.c.new_zeros(1, self.cell)
        h, c = self._run_one_step(inputs, zero_h, zero_c)
        cached[:] = [_FirstStep(self.inputs, self.projection, self.bias, clips, x, h, c)]
        return h, c

    def _run_one_step(self, inputs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Run one step for contiguous rows and return the updated h and c."""
        n = len(inputs)
        rows = _RowState(n, h, _blocked_cells(c), torch.empty(1, n, self.out))
        if self.shared_gates is not None:
            gates = (self.shared_gates.data_ptr(), len(self.x), inputs)
        else:
            gates = (*self._compute_gates(inputs), torch.arange(n))
        self._run_steps(rows, torch.tensor([n]), *gates, range(1))
        _reorder_cells(c, rows.cells, is_reverse=True)
        return h, c


def _blocked_cells(c: Tensor) -> Tensor:
    """Return a copy of contiguous cell states in the layout of native.c."""
    cells = allocate_aligned(c.numel() * c.element_size())
    _reorder_cells(c, cells, is_reverse=False)
    return cells


def _reorder_cells(c: Tensor, cells: Tensor, *, is_reverse: bool) -> None:
    """Copy cell states c, (rows, cell), to the layout of native.c, or back if `is_reverse`."""
    native_function("reorder_cells")(
        ctypes.c_void_p(c.data_ptr()),
        ctypes.c_void_p(cells.data_ptr()),
        ctypes.c_long(c.shape[0]),
        ctypes.c_long(c.shape[1]),
        is_reverse,
    )


def _split_steps(counts: Sequence[int], max_positions: int, steps: range) -> Iterator[range]:
    """Split steps into ranges of at most `max_positions` positions, but at least one step each."""
    start, total = steps.start, 0
    for step in steps:
        if step > start and total + counts[step] > max_positions:
            yield range(start, step)
            start, total = step, 0
        total += counts[step]
    yield range(start, steps.stop)
