"""The steps of an LSTM layer in Triton: all directions in a launch, a cell's four gates in a tile.

Buffers are contiguous, directions first, then steps, then rows. What a step needs in sequence is
here; products over all steps are `lstm_fused`'s. Marks tell what a row is at a step: see `RESET`
and `PADDING`.
"""

import triton
import triton.language as tl

RESET = tl.constexpr(1)
"""The state is zero before the step."""
PADDING = tl.constexpr(2)
"""There is no token: the state stays, the output is zero, no gradient comes from here."""


@triton.jit
def _tanh(x, FAST: tl.constexpr):
    """The GPU's own approximation errs by 5e-4 at most, about as much as half precision."""
    if FAST:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    # exp of a large number is infinite, and 2 / inf is the 0 it should be.
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    if FAST:
        return 0.5 + 0.5 * _tanh(0.5 * x, FAST)
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _clipped(x, bound):
    """What is no number stays none."""
    x = tl.maximum(x, -bound, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _summed(first, distance, wanted, SPLIT: tl.constexpr):
    """Add up parts of sums, which lie a distance apart."""
    value = tl.load(first, mask=wanted, other=0.0).to(tl.float32)
    for part in tl.static_range(1, SPLIT):
        value += tl.load(first + part * distance, mask=wanted, other=0.0).to(tl.float32)
    return value


@triton.jit
def _gates_of(values, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Split (rows, 4 * units) into i, f, g, o; each thread has all four of its units already."""
    values = tl.permute(tl.reshape(values, (ROWS, 4, UNITS)), (0, 2, 1))
    even, odd = tl.split(tl.reshape(values, (ROWS, UNITS, 2, 2)))
    i, g = tl.split(even)
    f, o = tl.split(odd)
    return i, f, g, o


@triton.jit(do_not_specialize=["step", "cell_in", "cell_out", "gate_slot", "hidden_slot", "n_rows"])
def cell_forward(
    states,  # (directions, steps + 1, batch, WIDTH): input, then output of the step before
    weight,  # (directions, 4 * CELL, WIDTH)
    bias,  # (directions, 4 * CELL)
    gates,  # (directions, gate slots, batch, 4 * CELL): in: the input's share; out: the gates
    cells,  # (directions, cell slots, batch, CELL)
    hidden,  # (directions, hidden slots, batch, CELL): out, before the projection
    marks,  # (directions, steps, batch)
    step,
    cell_in,
    cell_out,
    gate_slot,
    hidden_slot,
    n_steps,
    n_cell_slots,
    n_gate_slots,
    n_hidden_slots,
    batch,
    n_rows,  # the first rows, beyond which all are padding
    clip,
    CELL: tl.constexpr,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,  # columns of states and weight from here on are multiplied here
    MULTIPLY: tl.constexpr,
    READ_GATES: tl.constexpr,
    WRITE_GATES: tl.constexpr,
    CLIP: tl.constexpr,
    MARKED: tl.constexpr,
    FAST: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """A step up to the projection: `c' = clip(σ(f)·c + σ(i)·tanh(g))`, `σ(o)·tanh(c')`."""
    n_row_tiles = tl.cdiv(n_rows, ROWS)
    row_tile = tl.program_id(0) % n_row_tiles
    unit_tile = tl.program_id(0) // n_row_tiles
    direction = tl.program_id(1).to(tl.int64)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    units = unit_tile * UNITS + tl.arange(0, UNITS)
    columns = tl.arange(0, 4 * UNITS)
    column_units = unit_tile * UNITS + columns % UNITS
    # Out of range wraps around: what it computes is not stored.
    gate_columns = (columns // UNITS) * CELL + column_units % CELL
    row_in = rows % batch

    wanted = (rows < batch)[:, None] & (units < CELL)[None, :]
    inner = rows[:, None] * CELL + units[None, :]
    gate_block = gates + (direction * n_gate_slots + gate_slot) * batch * 4 * CELL
    gate_at = gate_block + rows.to(tl.int64)[:, None] * (4 * CELL) + units[None, :]
    values = tl.zeros((ROWS, 4 * UNITS), dtype=tl.float32)
    if MULTIPLY:
        depth = tl.arange(0, DEPTH)
        state_block = states + (direction * (n_steps + 1) + step) * batch * WIDTH
        state_at = state_block + row_in[:, None] * WIDTH + depth[None, :]
        weight_block = weight + direction * 4 * CELL * WIDTH
        weight_at = weight_block + gate_columns[None, :] * WIDTH + depth[:, None]
        for start in range(FIRST, WIDTH, DEPTH):
            if (WIDTH - FIRST) % DEPTH == 0:
                a = tl.load(state_at + start)
                b = tl.load(weight_at + start)
            else:
                inside = start + depth < WIDTH
                a = tl.load(state_at + start, mask=inside[None, :], other=0.0)
                b = tl.load(weight_at + start, mask=inside[:, None], other=0.0)
            values = tl.dot(a, b, values, input_precision="ieee")
    values += tl.load(bias + direction * 4 * CELL + gate_columns)[None, :]
    i, f, g, o = _gates_of(values, ROWS, UNITS)
    if READ_GATES:
        i += tl.load(gate_at, mask=wanted, other=0.0)
        f += tl.load(gate_at + CELL, mask=wanted, other=0.0)
        g += tl.load(gate_at + 2 * CELL, mask=wanted, other=0.0)
        o += tl.load(gate_at + 3 * CELL, mask=wanted, other=0.0)
    i, f, o = _sigmoid(i, FAST), _sigmoid(f, FAST), _sigmoid(o, FAST)
    g = _tanh(g, FAST)
    before = tl.load(
        cells + (direction * n_cell_slots + cell_in) * batch * CELL + inner, mask=wanted, other=0.0
    )
    if MARKED:
        mark = tl.load(marks + (direction * n_steps + step) * batch + row_in)[:, None]
        before = tl.where((mark & RESET) != 0, 0.0, before)
    cell = f * before + i * g
    if CLIP:
        cell = _clipped(cell, clip)
    out = o * _tanh(cell, FAST)
    if MARKED:
        cell = tl.where((mark & PADDING) != 0, before, cell)
    tl.store(
        cells + (direction * n_cell_slots + cell_out) * batch * CELL + inner, cell, mask=wanted
    )
    hidden_block = hidden + (direction * n_hidden_slots + hidden_slot) * batch * CELL
    tl.store(hidden_block + inner, out.to(hidden.dtype.element_ty), mask=wanted)
    if WRITE_GATES:
        kind = gates.dtype.element_ty
        tl.store(gate_at, i.to(kind), mask=wanted)
        tl.store(gate_at + CELL, f.to(kind), mask=wanted)
        tl.store(gate_at + 2 * CELL, g.to(kind), mask=wanted)
        tl.store(gate_at + 3 * CELL, o.to(kind), mask=wanted)


@triton.jit(do_not_specialize=["step", "upstream_slot"])
def cell_backward(
    upstream,  # (directions, slots, batch, CELL): gradient of the cell's output
    gates,  # (directions, steps, batch, 4 * CELL): in: the gates; out: gradients before them
    cells,  # (directions, steps + 1, batch, CELL)
    cell_gradient,  # (directions, batch, CELL): in: of this step's cell; out: of the one before
    bias_gradient,  # (directions, steps, row tiles, 4 * CELL): out
    marks,
    step,
    upstream_slot,
    n_upstream_slots,
    n_steps,
    batch,
    clip,
    CELL: tl.constexpr,
    CLIP: tl.constexpr,
    MARKED: tl.constexpr,
    FAST: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
):
    """The gradient of a step, from its output before the projection to the gates and the cell.

    The product that comes before is not in here: what a cell reads and writes wants other threads
    than what a product leaves behind, and bringing one to the other costs more than a launch.
    """
    n_unit_tiles = tl.cdiv(CELL, UNITS)
    unit_tile = tl.program_id(0) % n_unit_tiles
    row_tile = tl.program_id(0) // n_unit_tiles
    n_row_tiles = tl.cdiv(batch, ROWS)
    direction = tl.program_id(1).to(tl.int64)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    units = unit_tile * UNITS + tl.arange(0, UNITS)
    wanted = (rows < batch)[:, None] & (units < CELL)[None, :]
    inner = rows[:, None] * CELL + units[None, :]

    upstream_block = upstream + (direction * n_upstream_slots + upstream_slot) * batch * CELL
    d_out = tl.load(upstream_block + inner, mask=wanted, other=0.0).to(tl.float32)
    gate_block = gates + (direction * n_steps + step) * batch * 4 * CELL
    gate_at = gate_block + rows.to(tl.int64)[:, None] * (4 * CELL) + units[None, :]
    i = tl.load(gate_at, mask=wanted, other=0.0).to(tl.float32)
    f = tl.load(gate_at + CELL, mask=wanted, other=0.0).to(tl.float32)
    g = tl.load(gate_at + 2 * CELL, mask=wanted, other=0.0).to(tl.float32)
    o = tl.load(gate_at + 3 * CELL, mask=wanted, other=0.0).to(tl.float32)
    before_block = cells + (direction * (n_steps + 1) + step) * batch * CELL
    before = tl.load(before_block + inner, mask=wanted, other=0.0)
    cell = tl.load(before_block + batch * CELL + inner, mask=wanted, other=0.0)
    gradient_at = cell_gradient + direction * batch * CELL + inner
    d_after = tl.load(gradient_at, mask=wanted, other=0.0)
    if MARKED:
        mark = tl.load(
            marks + (direction * n_steps + step) * batch + rows, mask=rows < batch, other=0
        )[:, None]
        is_reset, is_padding = (mark & RESET) != 0, (mark & PADDING) != 0
        before = tl.where(is_reset, 0.0, before)
        d_out = tl.where(is_padding, 0.0, d_out)

    squashed = _tanh(cell, FAST)
    d_cell = d_after + d_out * o * (1 - squashed * squashed)
    if CLIP:
        # A cell at its bound was clipped: nothing passes.
        d_cell = tl.where(tl.abs(cell) < clip, d_cell, 0.0)
    d_before = d_cell * f
    if MARKED:
        d_before = tl.where(is_padding, d_after, d_before)
        d_before = tl.where(is_reset, 0.0, d_before)
        d_cell = tl.where(is_padding, 0.0, d_cell)
    tl.store(gradient_at, d_before, mask=wanted)
    d_i = d_cell * g * i * (1 - i)
    d_f = d_cell * before * f * (1 - f)
    d_g = d_cell * i * (1 - g * g)
    d_o = d_out * squashed * o * (1 - o)
    kind = gates.dtype.element_ty
    tl.store(gate_at, d_i.to(kind), mask=wanted)
    tl.store(gate_at + CELL, d_f.to(kind), mask=wanted)
    tl.store(gate_at + 2 * CELL, d_g.to(kind), mask=wanted)
    tl.store(gate_at + 3 * CELL, d_o.to(kind), mask=wanted)
    bias_block = bias_gradient + ((direction * n_steps + step) * n_row_tiles + row_tile) * 4 * CELL
    # Loads outside the batch gave zeros, and so all gradients there are zero.
    is_unit = units < CELL
    tl.store(bias_block + units, tl.sum(d_i, axis=0), mask=is_unit)
    tl.store(bias_block + CELL + units, tl.sum(d_f, axis=0), mask=is_unit)
    tl.store(bias_block + 2 * CELL + units, tl.sum(d_g, axis=0), mask=is_unit)
    tl.store(bias_block + 3 * CELL + units, tl.sum(d_o, axis=0), mask=is_unit)


@triton.jit(do_not_specialize=["slot", "n_rows"])
def product(
    a,  # (directions, slots, M, K)
    b,  # one (K, N) matrix for each direction, by strides
    parts,  # (SPLIT, directions, M, N), float32: out
    slot,
    n_slots,
    M,
    n_rows,
    b_direction,
    N: tl.constexpr,
    K: tl.constexpr,
    B_ROW: tl.constexpr,
    B_COLUMN: tl.constexpr,
    SPLIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """A product with a few rows and a long sum, cut into parts of the sum to fill the GPU."""
    n_row_tiles = tl.cdiv(n_rows, ROWS)
    row_tile = tl.program_id(0) % n_row_tiles
    column_tile = tl.program_id(0) // n_row_tiles
    direction = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    columns = column_tile * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    length: tl.constexpr = (K + SPLIT * DEPTH - 1) // (SPLIT * DEPTH) * DEPTH
    first = part * length
    a_block = a + (direction * n_slots + slot) * M * K
    a_at = a_block + (rows % M)[:, None] * K + (first + depth)[None, :]
    b_block = b + direction * b_direction
    b_at = b_block + (first + depth)[:, None] * B_ROW + (columns % N)[None, :] * B_COLUMN
    values = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, length, DEPTH):
        if length * SPLIT == K:
            x = tl.load(a_at + start)
            y = tl.load(b_at + start * B_ROW)
        else:
            inside = first + start + depth < K
            x = tl.load(a_at + start, mask=inside[None, :], other=0.0)
            y = tl.load(b_at + start * B_ROW, mask=inside[:, None], other=0.0)
        values = tl.dot(x, y, values, input_precision="ieee")
    wanted = (rows < M)[:, None] & (columns < N)[None, :]
    out = parts + (part * tl.num_programs(1) + direction) * M * N
    tl.store(out + rows[:, None] * N + columns[None, :], values, mask=wanted)


@triton.jit(do_not_specialize=["step", "part_slot"])
def finish_forward(
    parts,  # (SPLIT, directions, part slots, batch, OUT)
    states,  # (directions, steps + 1, batch, WIDTH): its last OUT columns, in and out
    outputs,  # (directions, steps, batch, OUT): out
    marks,
    step,
    part_slot,
    n_part_slots,
    n_steps,
    batch,
    clip,
    bound,  # the clip as outputs hold it
    below,  # the largest that outputs can hold under it
    OUT: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLIT: tl.constexpr,
    CLIP: tl.constexpr,
    MARKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The end of a step: the projection's parts put together and clipped, and the state set."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    direction = tl.program_id(1).to(tl.int64)
    n_directions = tl.num_programs(1)
    rows, columns = places // OUT, places % OUT
    wanted = places < batch * OUT
    first = parts + (direction * n_part_slots + part_slot) * batch * OUT + places
    value = _summed(first, n_directions * n_part_slots * batch * OUT, wanted, SPLIT)
    if CLIP:
        # Only what was clipped is at the bound, so that the way back can tell.
        inside = _clipped(value, below)
        value = tl.where(value > clip, bound, tl.where(value < -clip, -bound, inside))
    output_at = outputs + (direction * n_steps + step) * batch * OUT + places
    before = states + (direction * (n_steps + 1) + step) * batch * WIDTH
    before += rows * WIDTH + (WIDTH - OUT) + columns
    state = value
    if MARKED:
        mark_at = marks + (direction * n_steps + step) * batch + rows
        is_padding = (tl.load(mark_at, mask=wanted, other=0) & PADDING) != 0
        value = tl.where(is_padding, 0.0, value)
        kept = tl.load(before, mask=wanted & is_padding, other=0.0).to(tl.float32)
        state = tl.where(is_padding, kept, state)
        if step + 1 < n_steps:
            # The next step finds the state it begins with.
            is_reset = (tl.load(mark_at + batch, mask=wanted, other=0) & RESET) != 0
            state = tl.where(is_reset, 0.0, state)
    tl.store(output_at, value.to(outputs.dtype.element_ty), mask=wanted)
    tl.store(before + batch * WIDTH, state.to(states.dtype.element_ty), mask=wanted)


@triton.jit(do_not_specialize=["step", "part_slot"])
def finish_backward(
    parts,  # (SPLIT, directions, part slots, batch, PART): gradient from the step after, last OUT
    kept,  # (directions, batch, OUT), float32: what padding hands on, in and out
    d_outputs,  # (directions, steps, batch, OUT)
    outputs,  # (directions, steps, batch, OUT)
    upstream,  # (directions, steps, batch, OUT): out: gradient of the projection
    marks,
    step,
    part_slot,
    n_part_slots,
    n_steps,
    batch,
    bound,
    OUT: tl.constexpr,
    PART: tl.constexpr,
    SPLIT: tl.constexpr,
    CLIP: tl.constexpr,
    MARKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of an output: from above and from the step after, through the clip."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    direction = tl.program_id(1).to(tl.int64)
    n_directions = tl.num_programs(1)
    rows, columns = places // OUT, places % OUT
    wanted = places < batch * OUT
    value = tl.zeros((BLOCK,), dtype=tl.float32)
    inner = rows * PART + (PART - OUT) + columns
    for part in tl.static_range(SPLIT):
        block = (
            parts + ((part * n_directions + direction) * n_part_slots + part_slot) * batch * PART
        )
        value += tl.load(block + inner, mask=wanted, other=0.0).to(tl.float32)
    here = (direction * n_steps + step) * batch * OUT + places
    above = tl.load(d_outputs + here, mask=wanted, other=0.0).to(tl.float32)
    if MARKED:
        kept_at = kept + direction * batch * OUT + places
        value += tl.load(kept_at, mask=wanted, other=0.0)
        mark_at = marks + (direction * n_steps + step) * batch + rows
        if step + 1 < n_steps:
            is_reset = (tl.load(mark_at + batch, mask=wanted, other=0) & RESET) != 0
            value = tl.where(is_reset, 0.0, value)
        is_padding = (tl.load(mark_at, mask=wanted, other=0) & PADDING) != 0
        tl.store(kept_at, tl.where(is_padding, value, 0.0), mask=wanted)
        value = tl.where(is_padding, 0.0, value)
        above = tl.where(is_padding, 0.0, above)
    value += above
    if CLIP:
        output = tl.load(outputs + here, mask=wanted, other=0.0).to(tl.float32)
        value = tl.where(tl.abs(output) < bound, value, 0.0)
    tl.store(upstream + here, value.to(upstream.dtype.element_ty), mask=wanted)
