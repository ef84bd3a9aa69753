"""One LSTM layer on a CPU through `native.c`: the reference's call, without gradients.

Each direction of some of the rows is a task for one thread, and no task waits for another. What a
row becomes depends on that row alone, to the last bit.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import gcd

import torch
from torch import Tensor

from elmo.kernels.direction import Direction, Walk
from elmo.kernels.narrow import Arithmetic, wanted
from elmo.kernels.native_calls import (
    LANES,
    PANEL,
    SIZES,
    Weights,
    aligned,
    are_within,
    can_compute,
    filled_up,
    function,
    is_plain,
    multiply,
    pack,
    projected_in,
    room,
    shares,
    together,
)

NEEDS = (
    "a CPU with a C compiler (for int8 with AMX or AVX512-VNNI, for bfloat16 with AMX or "
    "AVX512-BF16, for bfloat16x3 with AMX), "
    "widths that are multiples of 64, known lengths, no resets and no gradient"
)

# What all widths are a multiple of.
WIDTHS = 64
# Positions whose input is multiplied together: their gates stay in the last cache.
POSITIONS = 1024
# Fewer rows are not cut up for the sake of balance: each task reads all weights at each step, which
# the tile units would wait for.
ROWS_OF_A_TASK: dict[Arithmetic, int] = {
    "float32": 64,
    "bfloat16x3": 128,
    "bfloat16": 128,
    "int8": 128,
}
# Units that are projected together, at most: eight tiles.
BLOCK = 256
# Arithmetics whose gates are kept in bfloat16.
NARROW: tuple[Arithmetic, ...] = ("bfloat16", "int8")
# The gates of each distinct input are kept, not made again at each place, up to this many bytes.
SHARED_BYTES = 2**28


def can_run(directions: Sequence[Direction]) -> bool:
    """Tell whether this is a call without gradients on a CPU that the library was compiled for."""
    return all(map(_fits, directions)) and can_compute(wanted())


def _fits(direction: Direction) -> bool:
    weights = (direction.weight_ih, direction.weight_hh)
    widths = (direction.weight_ih.shape[1], direction.h.shape[1], direction.c.shape[1])
    return (
        is_plain(direction.x, *weights, direction.h, direction.c)
        and all(width % WIDTHS == 0 for width in widths)
        and direction.active is not None
        and direction.resets is None
        and (direction.index is None or are_within(direction.index, len(direction.x)))
    )


def lstm(directions: Sequence[Direction]) -> list[Walk]:
    """Run the layer over time, in each direction; see `lstm_reference.lstm`."""
    layers = [_Layer(direction, wanted()) for direction in directions]
    n_parts = _parts(len(directions), directions[0].h.shape[0], wanted())
    together(task for layer in layers for task in layer.before())
    together(task for layer in layers for task in layer.walks(n_parts))
    return [(layer.outputs, layer.h, layer.c) for layer in layers]


def _parts(n_directions: int, n_rows: int, arithmetic: Arithmetic) -> int:
    """Say into how many parts the rows of each direction are cut.

    Twice as many tasks as threads where rows allow: a core that others disturb does fewer of them.
    """
    n_threads = torch.get_num_threads()
    least = -(-n_threads // n_directions)
    wanted_parts = min(2 * least, n_rows // ROWS_OF_A_TASK[arithmetic])
    return max(least, wanted_parts) if n_threads > 1 else 1


def _by_units(rows: Tensor) -> Tensor:
    """Put the gates i, f, g, o of sixteen units beside each other."""
    return rows.view(4, -1, LANES, *rows.shape[1:]).transpose(0, 1).flatten(0, 2)


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
                *("c", "cells", "h", "outputs", "state", "state_scale", "hidden", "sums"),
                "room",
            )
        ),
    )


class _Layer:
    """One direction: what is computed before the walks over its rows, and these walks."""

    def __init__(self, direction: Direction, arithmetic: Arithmetic) -> None:
        assert direction.active is not None
        self.direction = direction
        self.arithmetic = arithmetic
        self.active = torch.tensor(direction.active)
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
        self.inputs = pack(direction.weight_ih, arithmetic, "gates", _by_units)
        self.recurrent = pack(direction.weight_hh, arithmetic, "gates", _by_units)
        self.projection: Weights | None = None
        if direction.weight_hr is not None:
            self.projection = pack(
                direction.weight_hr, projected_in(arithmetic), "blocks", block=self.block
            )
        self.bias = _by_units(direction.bias.detach()).contiguous()
        self.x = direction.x.detach().flatten(0, -2).contiguous()
        self.index = None if direction.index is None else direction.index.long().contiguous()
        self.gate_bytes = 4 * self.cell * (2 if arithmetic in NARROW else 4)
        self.shared: Tensor | None = None

    def before(self) -> Iterator[Callable[[], None]]:
        """Give the tasks that come before all walks: the gates of each distinct input."""
        if self.index is None or len(self.x) * self.gate_bytes > SHARED_BYTES:
            return
        self.shared = aligned(len(self.x) * self.gate_bytes)
        for columns in shares(4 * self.cell, PANEL):
            yield partial(self._gates, None, self.shared.data_ptr(), columns)

    def _gates(self, index: Tensor | None, out: int, columns: tuple[int, int]) -> None:
        """Compute the input's share of gates, for all inputs or for those that an index names."""
        multiply(
            self.x,
            index,
            self.inputs,
            self.bias,
            self.arithmetic,
            out,
            columns=columns,
            gates=True,
        )

    def walks(self, n_parts: int) -> Iterator[Callable[[], None]]:
        """Give the tasks of some rows each, with about as many tokens."""
        lengths = (self.active[:, None] > torch.arange(self.batch)).sum(dim=0)
        ends = lengths.cumsum(dim=0) * n_parts
        first = 0
        for part in range(1, n_parts + 1):
            last = int((ends <= part * lengths.sum()).sum()) if part < n_parts else self.batch
            last = min(filled_up(last, LANES), self.batch)
            if last > first:
                yield partial(self._walk, first, last)
                first = last

    def _walk(self, first: int, last: int) -> None:
        """Walk over some rows."""
        active = (self.active - first).clamp(0, last - first)
        if self.shared is not None:
            assert self.index is not None
            given = (self.shared.data_ptr(), len(self.x), self.index[:, first:])
            self._steps(first, last, active, *given, range(self.n_steps))
            return
        chunks = list(_chunks(active.tolist(), POSITIONS))
        for steps in reversed(chunks) if self.direction.reverse else chunks:
            own = slice(steps.start, steps.stop)
            is_real = torch.arange(last - first) < active[own, None]
            # Which input stands at each position that is computed, and where its gates will be.
            places = torch.arange(*own.indices(self.n_steps))[:, None] * self.batch
            there = (places + torch.arange(first, last))[is_real]
            if self.index is not None:
                there = self.index.flatten()[there]
            gates = room("gates", max(1, len(there)) * self.gate_bytes)
            self._gates(there, gates, (0, 4 * self.cell))
            numbers = torch.zeros(self.n_steps, self.batch, dtype=torch.int64)
            numbers[own, : last - first][is_real] = torch.arange(len(there))
            self._steps(first, last, active, gates, len(there), numbers, steps)

    def _steps(
        self,
        first: int,
        last: int,
        active: Tensor,
        gates: int,
        n_inputs: int,
        index: Tensor,
        steps: range,
    ) -> None:
        """Walk over some steps of some rows, whose inputs' share of the gates is known."""
        rows, size = filled_up(last - first, 2 * LANES), SIZES[self.arithmetic]
        direction, projection = self.direction, self.projection
        given = _Walk(
            cell=self.cell,
            out=self.out,
            batch=self.batch,
            first_step=steps.start,
            last_step=steps.stop,
            reverse=direction.reverse,
            rows=last - first,
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
            c=self.c[first:].data_ptr(),
            cells=room("cells", rows * self.cell * 4),
            h=self.h[first:].data_ptr(),
            outputs=self.outputs[:, first:].data_ptr(),
            state=room("state", rows * self.out * size),
            state_scale=room("state scales", 4 * rows),
            hidden=room("hidden", rows * self.block * SIZES[projected_in(self.arithmetic)]),
            sums=room("projected", rows * self.out * 4),
            room=room("gate sums", 2 * rows * 4 * LANES * 4),
        )
        function(f"walk_{self.arithmetic}")(ctypes.byref(given))


def _chunks(counts: Sequence[int], most: int) -> Iterator[range]:
    """Cut steps into pieces of so many positions at most, or of one step."""
    start = total = 0
    for step, count in enumerate(counts):
        if step > start and total + count > most:
            yield range(start, step)
            start, total = step, 0
        total += count
    yield range(start, len(counts))
