"""One LSTM layer on a CPU through `native.c`: the reference's call, without gradients.

Each direction of some of the rows is walked over by one thread at a time, some steps in a turn; no
walk waits for another. What a row becomes depends on that row alone, to the last bit. So rows that
begin alike are walked over as one until they part, and the first step of all, the mark that a
sentence begins with, is remembered.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.kernels.compute_precision import wanted
from elmo.kernels.lstm_call import LSTMCall, Walk
from elmo.kernels.native_ffi import (
    GROUP,
    LANES,
    PANEL,
    SIZES,
    TOGETHER,
    WORTH_A_TASK,
    After,
    Gathered,
    Kind,
    Weights,
    aligned,
    are_within,
    can_compute,
    filled_up,
    function,
    gathered,
    is_plain,
    kind_of,
    multiply,
    pack,
    projected_in,
    room,
    shares,
    side_by_side,
    together,
)
from elmo.kernels.packing import packed

NEEDS = (
    "a CPU with a C compiler (for int8 with AMX, AVX512-VNNI or ARM's dot products, for bfloat16 "
    "with AMX or AVX512-BF16), widths that are multiples of 64, known lengths, no resets and no "
    "gradient"
)

# What all widths are a multiple of.
WIDTHS = 64
# Positions of a turn, at most: gates that are computed for it stay in the last cache.
POSITIONS = 1024
# Products of two numbers that are a turn, unless TOGETHER positions have more: 20 ms of tiles to
# 250 of a slow core. On shared cores threads are not equally fast; when a layer ends all but one
# have nothing to do, for half a turn.
TURN: dict[Kind, int] = {
    "float32": 2**32,
    "int8x3": 2**33,
    "bfloat16": 2**34,
    "int8": 2**34,
}
# Fewer rows are not cut up for the sake of balance: each task reads all weights at each step, which
# the tile units would wait for.
ROWS_OF_A_TASK: dict[Kind, int] = {
    "float32": 64,
    "int8x3": 96,
    "bfloat16": 96,
    "int8": 96,
}
# Units that are projected together, at most: eight tiles.
BLOCK = 256
# Kinds whose gates are kept in bfloat16.
NARROW: tuple[Kind, ...] = ("bfloat16", "int8")
# The gates of each distinct input are kept, not made again at each place, up to this many bytes.
SHARED_BYTES = 2**28
# Rows that begin alike are walked over as one where that leaves out this share of them, at least.
WORTH_SHARING = 0.2
# A step of fewer rows times bytes of weights takes less time than looking for rows that are alike.
WORTH_LOOKING = 2**22


def can_run(directions: Sequence[LSTMCall]) -> bool:
    """Tell whether this is a call without gradients on a CPU that the library was compiled for."""
    return all(map(_fits, directions)) and can_compute(kind_of(wanted()))


def _fits(direction: LSTMCall) -> bool:
    weights = (direction.weight_ih, direction.weight_hh)
    widths = (direction.weight_ih.shape[1], direction.h.shape[1], direction.c.shape[1])
    return (
        is_plain(direction.x, *weights, direction.h, direction.c)
        and all(width % WIDTHS == 0 for width in widths)
        and direction.active is not None
        and direction.resets is None
        and (direction.index is None or are_within(direction.index, len(direction.x)))
    )


def lstm(directions: Sequence[LSTMCall]) -> list[Walk]:
    """Run the layer over time, in each direction; see `lstm_reference.lstm`."""
    kind = kind_of(wanted())
    n_parts = _parts(len(directions), directions[0].h.shape[0], kind)
    layers = [_NativeLayer(direction, kind, n_parts) for direction in directions]
    together(task for layer in layers for task in layer.before())
    together(task for layer in layers for task in layer.walks())
    return [(layer.outputs, layer.h, layer.c) for layer in layers]


def _parts(n_directions: int, n_rows: int, kind: Kind) -> int:
    """Say into how many parts the rows of each direction are cut.

    Twice as many tasks as threads where rows allow: a core that others disturb does fewer of them.
    """
    n_threads = torch.get_num_threads()
    least = -(-n_threads // n_directions)
    wanted_parts = min(2 * least, n_rows // ROWS_OF_A_TASK[kind])
    return max(least, wanted_parts) if n_threads > 1 else 1


# The gates i, f, g, o of sixteen units stand beside each other.
_by_units = partial(side_by_side, 4)


class _Walk(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                *("cell", "out", "batch", "first_step", "last_step", "reverse"),
                *("rows", "inputs", "block"),
            )
        ),
        *((name, ctypes.c_float) for name in ("cell_clip", "projection_clip")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("gates", "index", "active"),
                *("recurrent", "recurrent_scale", "projection"),
                *("cells", "h", "outputs", "state", "state_scale", "hidden", "sums"),
                "room",
            )
        ),
    )


class _Rows(NamedTuple):
    """Rows that are walked over, of so many to a step: what is read and written.

    Attributes:
        batch: rows of a step.
        h: their states.
        cells: their cells, in the order that C computes them in.
        outputs: what they give.
    """

    batch: int
    h: Tensor
    cells: Tensor
    outputs: Tensor


class _First(NamedTuple):
    """A first step out of a state of zeros, and all that it depends on beside the weights."""

    inputs: Weights
    projection: Weights | None
    bias: Tensor
    clips: tuple[float | None, float | None]
    x: Tensor
    h: Tensor
    c: Tensor


class _NativeLayer:
    """One direction: what is computed before the walks over its rows, and these walks."""

    def __init__(self, direction: LSTMCall, kind: Kind, n_parts: int) -> None:
        assert direction.active is not None
        self.direction = direction
        self.kind = kind
        self.active = torch.tensor(direction.active, dtype=torch.int64)
        self.batch, self.out = direction.h.shape
        self.cell = direction.c.shape[1]
        self.block = gcd(self.cell, BLOCK)
        self.n_steps = len(direction.active)
        # What is written to is ours, and lies row by row.
        self.h, self.c = (
            state.clone(memory_format=torch.contiguous_format)
            for state in (direction.h, direction.c)
        )
        make = torch.empty if min(direction.active, default=0) == self.batch else torch.zeros
        self.outputs = make(self.n_steps, self.batch, self.out)
        self.inputs = pack(direction.weight_ih, kind, "gates", _by_units)
        self.recurrent = pack(direction.weight_hh, kind, "gates", _by_units)
        self.projected_in = projected_in(kind)
        self.projection: Weights | None = None
        if direction.weight_hr is not None:
            self.projection = pack(
                direction.weight_hr, self.projected_in, "blocks", block=self.block
            )
        self.bias = _by_units(direction.bias.detach()).contiguous()
        self.x = direction.x.detach().flatten(0, -2).contiguous()
        self.index = None if direction.index is None else direction.index.long().contiguous()
        self.gate_bytes = 4 * self.cell * (2 if kind in NARROW else 4)
        weights = (self.inputs, self.recurrent, self.projection)
        work = sum(one.n * one.k for one in weights if one is not None)
        self.positions = min(POSITIONS, max(TOGETHER, TURN[kind] // work))
        self.parts = list(self._cut(n_parts))
        self.shared: Tensor | None = None
        self.is_shared = False

    @cached_property
    def lengths(self) -> Tensor:
        """Steps of each row."""
        return (self.active[:, None] > torch.arange(self.batch)).sum(dim=0)

    def _cut(self, n_parts: int) -> Iterator[tuple[int, int]]:
        """Cut the rows into parts with about as many tokens."""
        first = 0
        for part in range(1, n_parts + 1):
            last = self.batch
            if part < n_parts:
                ends = self.lengths.cumsum(dim=0) * n_parts
                last = int((ends <= part * self.lengths.sum()).sum())
                last = min(filled_up(last, LANES), self.batch)
            if last > first:
                yield first, last
                first = last

    def before(self) -> list[Callable[[], None]]:
        """Give the tasks that come before all walks: the gates of each distinct input."""
        if self.index is None or len(self.x) * self.gate_bytes > SHARED_BYTES:
            return []
        self.shared = aligned(len(self.x) * self.gate_bytes)
        work = len(self.x) * self.inputs.k
        if len(self.parts) == 1 and 4 * self.cell * work < WORTH_A_TASK:
            return []  # the only walk does it before its first step
        rows = gathered(self.x, None, self.kind)
        self.is_shared = True
        pieces = shares(4 * self.cell, PANEL, work)
        return [partial(self._gates, rows, self.shared.data_ptr(), columns) for columns in pieces]

    def _gates(self, rows: Gathered, out: int, columns: tuple[int, int]) -> None:
        """Compute the share of the gates that some inputs have."""
        given = (self.inputs, self.bias, self.kind)
        multiply(rows, *given, out, columns, After.GATES)

    def walks(self) -> Iterator[Callable[[], bool]]:
        """Give the tasks of some rows each; each call is a turn."""
        for first, last in self.parts:
            yield partial(next, self._walk(first, last), False)

    @torch.inference_mode()  # a thread of ours does not know that its caller is in it
    def _walk(self, first: int, last: int) -> Iterator[bool]:
        """Walk over some rows, turn by turn."""
        if self.shared is not None and not self.is_shared:
            rows_of_table = gathered(self.x, None, self.kind)
            self._gates(rows_of_table, self.shared.data_ptr(), (0, 4 * self.cell))
        n_taken = self._begin(first, last)
        c = self.c[first:last]
        rows = _Rows(self.batch, self.h[first:last], _cells_of(c), self.outputs[:, first:])
        active = self.active
        if last - first < self.batch:
            active = (active - first).clamp(0, last - first)
        left = range(n_taken, self.n_steps)
        if self.direction.reverse:
            # Rows begin where they end, each so many steps later than it would.
            active, left = active[n_taken:], range(self.n_steps - n_taken)
        counts = active.tolist()
        chunks = list(_chunks(counts, self.positions, left))
        for steps in reversed(chunks) if self.direction.reverse else chunks:
            self._steps(rows, active, *self._gates_at(first, last, counts, steps), steps)
            yield True
        _turn_cells(c, rows.cells, is_back=True)

    def _gates_at(
        self, first: int, last: int, counts: Sequence[int], steps: range
    ) -> tuple[int, int, Tensor]:
        """Give the inputs' share of gates for some steps of some rows.

        Returns:
            Its address, of how many inputs it is, and which of them stands where.
        """
        if self.shared is not None:
            assert self.index is not None
            return self.shared.data_ptr(), len(self.x), self.index[:, first:]
        own = slice(steps.start, steps.stop)
        if self.index is None and all(count == self.batch for count in counts[own]):
            # Inputs stand beside each other, none is left out.
            before = steps.start * self.batch
            gates, n_inputs = self._gates_of(torch.arange(before, steps.stop * self.batch))
            return gates, n_inputs, torch.arange(-before, self.n_steps * self.batch - before)
        is_real = torch.arange(last - first) < torch.tensor(counts[own])[:, None]
        # Which input stands at each position that is computed, and where its gates will be.
        step, row = is_real.nonzero(as_tuple=True)
        gates, n_inputs = self._gates_of(self._inputs_at(step + steps.start, row + first))
        numbers = torch.zeros(self.n_steps, self.batch, dtype=torch.int64)
        numbers[own, : last - first][is_real] = torch.arange(n_inputs)
        return gates, n_inputs, numbers

    def _inputs_at(self, steps: Tensor, rows: Tensor) -> Tensor:
        """Say which inputs stand at some places."""
        return steps * self.batch + rows if self.index is None else self.index[steps, rows]

    def _gates_of(self, inputs: Tensor) -> tuple[int, int]:
        """Compute the share of some inputs; gives its address and their number."""
        gates = room("gates", max(1, len(inputs)) * self.gate_bytes)
        self._gates(gathered(self.x, inputs, self.kind), gates, (0, 4 * self.cell))
        return gates, len(inputs)

    def _steps(
        self,
        rows: _Rows,
        active: Tensor,
        gates: int,
        n_inputs: int,
        index: Tensor,
        steps: range,
    ) -> None:
        """Walk over some steps of some rows, whose inputs' share of the gates is known."""
        # A multiple of all that rows are filled up to, here (GROUP) and in C (32).
        n_filled, size = filled_up(len(rows.h), 2 * GROUP), SIZES[self.kind]
        direction, projection = self.direction, self.projection
        given = _Walk(
            cell=self.cell,
            out=self.out,
            batch=rows.batch,
            first_step=steps.start,
            last_step=steps.stop,
            reverse=direction.reverse,
            rows=len(rows.h),
            inputs=n_inputs,
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
            state=room("state", n_filled * self.out * size),
            state_scale=room("state scales", 4 * n_filled),
            hidden=room("hidden", n_filled * self.block * SIZES[self.projected_in]),
            sums=room("projected", n_filled * self.out * 4),
            room=room("gate sums", 2 * n_filled * 3 * 4 * LANES * 4),
        )
        function(f"walk_{self.kind}")(ctypes.byref(given))

    # -------------------------------------------------------------- rows that begin alike

    def _begin(self, first: int, last: int) -> int:
        """Take the steps in which rows are alike, once for all that are; gives how many."""
        if (last - first) * self.recurrent.values.numel() < WORTH_LOOKING:
            return 0
        if self.h[first:last].any() or self.c[first:last].any():
            return 0
        rows, lengths = torch.arange(first, last), self.lengths[first:last]
        # Which of the states each row has.
        own = torch.zeros_like(rows)
        h, c = self.h.new_zeros(1, self.out), self.c.new_zeros(1, self.cell)
        # A row alone begins like those of calls before, and has no other beside it later on.
        n_levels = min(int(lengths.min()), 1 if len(rows) == 1 else self.n_steps)
        n_taken = 0
        while n_taken < n_levels:
            last_steps = lengths - 1 - n_taken
            steps = last_steps if self.direction.reverse else torch.full_like(rows, n_taken)
            inputs = self._inputs_at(steps, rows)
            same, leaders = self._alike(own, inputs)
            taken = None
            if n_taken == 0 and len(leaders) == 1:
                taken = self._first(inputs[:1], len(rows))
            elif len(leaders) <= (1 - WORTH_SHARING) * len(rows):
                taken = self._step(inputs[leaders], h[own[leaders]], c[own[leaders]])
            if taken is None:
                break
            own, (h, c) = same, taken
            self.outputs[steps, rows] = h[own]
            n_taken += 1
        if n_taken > 0:
            self.h[first:last], self.c[first:last] = h[own], c[own]
        return n_taken

    def _alike(self, own: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Number the states that rows have after one more input; gives a row of each, too."""
        if len(own) == 1:
            return own, own
        keys = inputs
        if self.index is None:
            # Inputs of an upper layer have no numbers: alike is what has the same bits.
            bits = self.x[inputs].view(torch.int32)
            keys = (bits.long() * torch.arange(1, 2 * bits.shape[1], 2)).sum(dim=1)
        same = torch.unique(torch.stack([own, keys]), dim=1, return_inverse=True)[1]
        leaders = torch.empty(int(same.max()) + 1, dtype=torch.int64)
        leaders[same] = torch.arange(len(own))
        if self.index is None and not torch.equal(bits, bits[leaders[same]]):
            return torch.arange(len(own)), torch.arange(len(own))
        return same, leaders

    def _first(self, inputs: Tensor, n_rows: int) -> tuple[Tensor, Tensor] | None:
        """Take the first step, or remember it where it was taken before.

        None where it would be taken for a row alone that does not begin as those before: a step by
        itself reads all weights once more.
        """
        kept: list[_First] = packed(
            self.direction.weight_hh, f"first step {self.kind}", lambda _: []
        )
        x, clips = self.x[inputs], (self.direction.cell_clip, self.direction.projection_clip)
        for one in kept:
            if (
                (one.inputs is self.inputs and one.projection is self.projection)
                and one.clips == clips
                and torch.equal(one.bias, self.bias)
                and torch.equal(one.x, x)
            ):
                return one.h, one.c
        if kept and n_rows == 1:
            return None
        h, c = self._step(inputs, self.h.new_zeros(1, self.out), self.c.new_zeros(1, self.cell))
        kept[:] = [_First(self.inputs, self.projection, self.bias, clips, x, h, c)]
        return h, c

    def _step(self, inputs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step of rows that stand beside each other."""
        n = len(inputs)
        rows = _Rows(n, h, _cells_of(c), torch.empty(1, n, self.out))
        if self.shared is not None:
            given = (self.shared.data_ptr(), len(self.x), inputs)
        else:
            given = (*self._gates_of(inputs), torch.arange(n))
        self._steps(rows, torch.tensor([n]), *given, range(1))
        _turn_cells(c, rows.cells, is_back=True)
        return h, c


def _cells_of(c: Tensor) -> Tensor:
    """Give the cells of rows that follow each other, as C computes them."""
    cells = aligned(c.numel() * c.element_size())
    _turn_cells(c, cells, is_back=False)
    return cells


def _turn_cells(c: Tensor, cells: Tensor, *, is_back: bool) -> None:
    """Bring cells, (rows, cell), into the order that C computes them in, or back."""
    function("turn_cells")(
        ctypes.c_void_p(c.data_ptr()),
        ctypes.c_void_p(cells.data_ptr()),
        ctypes.c_long(c.shape[0]),
        ctypes.c_long(c.shape[1]),
        is_back,
    )


def _chunks(counts: Sequence[int], most: int, steps: range) -> Iterator[range]:
    """Cut steps into pieces of so many positions at most, or of one step."""
    start, total = steps.start, 0
    for step in steps:
        if step > start and total + counts[step] > most:
            yield range(start, step)
            start, total = step, 0
        total += counts[step]
    yield range(start, steps.stop)
