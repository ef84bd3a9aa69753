"""Triton kernels for one step of an LSTM layer; each launch computes all directions.

Buffers are contiguous; their leading dimensions are directions, steps and rows. A tile holds the
four gates of its units. Products over all steps are computed in `lstm_fused_steps`. Flags describe
each row at each step (see `RESET` and `PADDING`).
"""

import triton
import triton.language as tl

RESET = tl.constexpr(1)
"""The state is set to zero before the step."""
PADDING = tl.constexpr(2)
"""No token: the state is kept, the output is zero and has no gradient."""


@triton.jit
def _tanh(x, FAST: tl.constexpr):
    """Return tanh, with FAST as approximated by the GPU (error up to 5e-4, like half precision)."""
    if FAST:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    # For large x exp is infinite, and 2 / inf is 0 as required.
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    if FAST:
        return 0.5 + 0.5 * _tanh(0.5 * x, FAST)
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _clipped(x, bound):
    """Clip values to [-bound, bound], preserving NaN."""
    x = tl.maximum(x, -bound, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _sum_parts(first, stride, valid, SPLIT: tl.constexpr):
    """Add up the partial sums of a product, which are stored `stride` elements apart."""
    value = tl.load(first, mask=valid, other=0.0).to(tl.float32)
    for part in tl.static_range(1, SPLIT):
        value += tl.load(first + part * stride, mask=valid, other=0.0).to(tl.float32)
    return value


@triton.jit
def _split_gates(values, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Split (rows, 4 * units) into i, f, g, o. Each thread already holds all gates of its units."""
    values = tl.permute(tl.reshape(values, (ROWS, 4, UNITS)), (0, 2, 1))
    even, odd = tl.split(tl.reshape(values, (ROWS, UNITS, 2, 2)))
    i, g = tl.split(even)
    f, o = tl.split(odd)
    return i, f, g, o


@triton.jit(do_not_specialize=["step", "cell_in", "cell_out", "gate_slot", "hidden_slot", "n_rows"])
def cell_forward(
    states,  # (directions, steps + 1, batch, WIDTH): input, then output of the previous step
    weight,  # (directions, 4 * CELL, WIDTH)
    bias,  # (directions, 4 * CELL)
    gates,  # (directions, gate slots, batch, 4 * CELL): in: share of the input; out: the gates
    cells,  # (directions, cell slots, batch, CELL)
    hidden,  # (directions, hidden slots, batch, CELL): out, before the projection
    flags,  # (directions, steps, batch)
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
    n_rows,  # number of leading rows to compute; all others are padding
    clip,
    CELL: tl.constexpr,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,  # first column of states and weight that is multiplied here
    MULTIPLY: tl.constexpr,
    READ_GATES: tl.constexpr,
    WRITE_GATES: tl.constexpr,
    CLIP: tl.constexpr,
    HAS_FLAGS: tl.constexpr,
    FAST: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Compute a step before the projection: `c' = clip(σ(f)·c + σ(i)·tanh(g))`, `σ(o)·tanh(c')`."""
    n_row_tiles = tl.cdiv(n_rows, ROWS)
    row_tile = tl.program_id(0) % n_row_tiles
    unit_tile = tl.program_id(0) // n_row_tiles
    direction = tl.program_id(1).to(tl.int64)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    units = unit_tile * UNITS + tl.arange(0, UNITS)
    columns = tl.arange(0, 4 * UNITS)
    column_units = unit_tile * UNITS + columns % UNITS
    # Columns and rows out of range wrap around; their results are not stored.
    gate_columns = (columns // UNITS) * CELL + column_units % CELL
    row_in = rows % batch

    valid = (rows < batch)[:, None] & (units < CELL)[None, :]
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
    i, f, g, o = _split_gates(values, ROWS, UNITS)
    if READ_GATES:
        i += tl.load(gate_at, mask=valid, other=0.0)
        f += tl.load(gate_at + CELL, mask=valid, other=0.0)
        g += tl.load(gate_at + 2 * CELL, mask=valid, other=0.0)
        o += tl.load(gate_at + 3 * CELL, mask=valid, other=0.0)
    i, f, o = _sigmoid(i, FAST), _sigmoid(f, FAST), _sigmoid(o, FAST)
    g = _tanh(g, FAST)
    before = tl.load(
        cells + (direction * n_cell_slots + cell_in) * batch * CELL + inner, mask=valid, other=0.0
    )
    if HAS_FLAGS:
        flag = tl.load(flags + (direction * n_steps + step) * batch + row_in)[:, None]
        before = tl.where((flag & RESET) != 0, 0.0, before)
    cell = f * before + i * g
    if CLIP:
        cell = _clipped(cell, clip)
    out = o * _tanh(cell, FAST)
    if HAS_FLAGS:
        cell = tl.where((flag & PADDING) != 0, before, cell)
    tl.store(cells + (direction * n_cell_slots + cell_out) * batch * CELL + inner, cell, mask=valid)
    hidden_block = hidden + (direction * n_hidden_slots + hidden_slot) * batch * CELL
    tl.store(hidden_block + inner, out.to(hidden.dtype.element_ty), mask=valid)
    if WRITE_GATES:
        dtype = gates.dtype.element_ty
        tl.store(gate_at, i.to(dtype), mask=valid)
        tl.store(gate_at + CELL, f.to(dtype), mask=valid)
        tl.store(gate_at + 2 * CELL, g.to(dtype), mask=valid)
        tl.store(gate_at + 3 * CELL, o.to(dtype), mask=valid)


@triton.jit(do_not_specialize=["step", "upstream_slot"])
def cell_backward(
    upstream,  # (directions, slots, batch, CELL): gradient of the cell's output
    gates,  # (directions, steps, batch, 4 * CELL): in: the gates; out: gradient of their inputs
    cells,  # (directions, steps + 1, batch, CELL)
    cell_gradient,  # (directions, batch, CELL): in: of the step's cell; out: of the previous cell
    bias_gradient,  # (directions, steps, row tiles, 4 * CELL): out
    flags,
    step,
    upstream_slot,
    n_upstream_slots,
    n_steps,
    batch,
    clip,
    CELL: tl.constexpr,
    CLIP: tl.constexpr,
    HAS_FLAGS: tl.constexpr,
    FAST: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
):
    """Compute the gradients of gates and cell from the gradient of the output before projection.

    The preceding product is a separate launch, because the cell needs a different thread layout,
    and converting between the layouts costs more than a launch.
    """
    n_unit_tiles = tl.cdiv(CELL, UNITS)
    unit_tile = tl.program_id(0) % n_unit_tiles
    row_tile = tl.program_id(0) // n_unit_tiles
    n_row_tiles = tl.cdiv(batch, ROWS)
    direction = tl.program_id(1).to(tl.int64)
    rows = row_tile * ROWS + tl.arange(0, ROWS)
    units = unit_tile * UNITS + tl.arange(0, UNITS)
    valid = (rows < batch)[:, None] & (units < CELL)[None, :]
    inner = rows[:, None] * CELL + units[None, :]

    upstream_block = upstream + (direction * n_upstream_slots + upstream_slot) * batch * CELL
    d_out = tl.load(upstream_block + inner, mask=valid, other=0.0).to(tl.float32)
    gate_block = gates + (direction * n_steps + step) * batch * 4 * CELL
    gate_at = gate_block + rows.to(tl.int64)[:, None] * (4 * CELL) + units[None, :]
    i = tl.load(gate_at, mask=valid, other=0.0).to(tl.float32)
    f = tl.load(gate_at + CELL, mask=valid, other=0.0).to(tl.float32)
    g = tl.load(gate_at + 2 * CELL, mask=valid, other=0.0).to(tl.float32)
    o = tl.load(gate_at + 3 * CELL, mask=valid, other=0.0).to(tl.float32)
    before_block = cells + (direction * (n_steps + 1) + step) * batch * CELL
    before = tl.load(before_block + inner, mask=valid, other=0.0)
    cell = tl.load(before_block + batch * CELL + inner, mask=valid, other=0.0)
    gradient_at = cell_gradient + direction * batch * CELL + inner
    d_after = tl.load(gradient_at, mask=valid, other=0.0)
    if HAS_FLAGS:
        flag = tl.load(
            flags + (direction * n_steps + step) * batch + rows, mask=rows < batch, other=0
        )[:, None]
        is_reset, is_padding = (flag & RESET) != 0, (flag & PADDING) != 0
        before = tl.where(is_reset, 0.0, before)
        d_out = tl.where(is_padding, 0.0, d_out)

    squashed = _tanh(cell, FAST)
    d_cell = d_after + d_out * o * (1 - squashed * squashed)
    if CLIP:
        # A cell at its bound was clipped: it passes no gradient.
        d_cell = tl.where(tl.abs(cell) < clip, d_cell, 0.0)
    d_before = d_cell * f
    if HAS_FLAGS:
        d_before = tl.where(is_padding, d_after, d_before)
        d_before = tl.where(is_reset, 0.0, d_before)
        d_cell = tl.where(is_padding, 0.0, d_cell)
    tl.store(gradient_at, d_before, mask=valid)
    d_i = d_cell * g * i * (1 - i)
    d_f = d_cell * before * f * (1 - f)
    d_g = d_cell * i * (1 - g * g)
    d_o = d_out * squashed * o * (1 - o)
    dtype = gates.dtype.element_ty
    tl.store(gate_at, d_i.to(dtype), mask=valid)
    tl.store(gate_at + CELL, d_f.to(dtype), mask=valid)
    tl.store(gate_at + 2 * CELL, d_g.to(dtype), mask=valid)
    tl.store(gate_at + 3 * CELL, d_o.to(dtype), mask=valid)
    bias_block = bias_gradient + ((direction * n_steps + step) * n_row_tiles + row_tile) * 4 * CELL
    # Values loaded outside the batch are zero, and so are all gradients there.
    is_unit = units < CELL
    tl.store(bias_block + units, tl.sum(d_i, axis=0), mask=is_unit)
    tl.store(bias_block + CELL + units, tl.sum(d_f, axis=0), mask=is_unit)
    tl.store(bias_block + 2 * CELL + units, tl.sum(d_g, axis=0), mask=is_unit)
    tl.store(bias_block + 3 * CELL + units, tl.sum(d_o, axis=0), mask=is_unit)


@triton.jit(do_not_specialize=["slot", "n_rows"])
def product(
    a,  # (directions, slots, M, K)
    b,  # a (K, N) matrix for each direction, accessed by strides
    parts,  # (SPLIT, directions, M, N), float32: out: partial sums
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
    """Multiply matrices with few rows and a long inner dimension, split to fill the GPU."""
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
    valid = (rows < M)[:, None] & (columns < N)[None, :]
    out = parts + (part * tl.num_programs(1) + direction) * M * N
    tl.store(out + rows[:, None] * N + columns[None, :], values, mask=valid)


@triton.jit(do_not_specialize=["step", "part_slot"])
def finish_forward(
    parts,  # (SPLIT, directions, part slots, batch, OUT)
    states,  # (directions, steps + 1, batch, WIDTH): its last OUT columns, in and out
    outputs,  # (directions, steps, batch, OUT): out
    flags,
    step,
    part_slot,
    n_part_slots,
    n_steps,
    batch,
    clip,
    bound,  # the clip, rounded to the dtype of the outputs
    below,  # the next smaller number in that dtype
    OUT: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLIT: tl.constexpr,
    CLIP: tl.constexpr,
    HAS_FLAGS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Finish a step: add up the partial sums of the projection, clip it and write the state."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    direction = tl.program_id(1).to(tl.int64)
    n_directions = tl.num_programs(1)
    rows, columns = offsets // OUT, offsets % OUT
    valid = offsets < batch * OUT
    first = parts + (direction * n_part_slots + part_slot) * batch * OUT + offsets
    value = _sum_parts(first, n_directions * n_part_slots * batch * OUT, valid, SPLIT)
    if CLIP:
        # Only clipped values equal the bound: the backward pass depends on it.
        inside = _clipped(value, below)
        value = tl.where(value > clip, bound, tl.where(value < -clip, -bound, inside))
    output_at = outputs + (direction * n_steps + step) * batch * OUT + offsets
    before = states + (direction * (n_steps + 1) + step) * batch * WIDTH
    before += rows * WIDTH + (WIDTH - OUT) + columns
    state = value
    if HAS_FLAGS:
        flag_at = flags + (direction * n_steps + step) * batch + rows
        is_padding = (tl.load(flag_at, mask=valid, other=0) & PADDING) != 0
        value = tl.where(is_padding, 0.0, value)
        previous = tl.load(before, mask=valid & is_padding, other=0.0).to(tl.float32)
        state = tl.where(is_padding, previous, state)
        if step + 1 < n_steps:
            # A reset before the next step applies to the state that it reads.
            is_reset = (tl.load(flag_at + batch, mask=valid, other=0) & RESET) != 0
            state = tl.where(is_reset, 0.0, state)
    tl.store(output_at, value.to(outputs.dtype.element_ty), mask=valid)
    tl.store(before + batch * WIDTH, state.to(states.dtype.element_ty), mask=valid)


@triton.jit(do_not_specialize=["step", "part_slot"])
def finish_backward(
    parts,  # (SPLIT, directions, part slots, batch, PART): last OUT columns: from the next step
    carried,  # (directions, batch, OUT), float32: gradient carried across padding, in and out
    d_outputs,  # (directions, steps, batch, OUT)
    outputs,  # (directions, steps, batch, OUT)
    upstream,  # (directions, steps, batch, OUT): out: gradient of the projection before its clip
    flags,
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
    HAS_FLAGS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the output gradients from the layer above and the next step; backpropagate the clip."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    direction = tl.program_id(1).to(tl.int64)
    n_directions = tl.num_programs(1)
    rows, columns = offsets // OUT, offsets % OUT
    valid = offsets < batch * OUT
    value = tl.zeros((BLOCK,), dtype=tl.float32)
    inner = rows * PART + (PART - OUT) + columns
    for part in tl.static_range(SPLIT):
        block = (
            parts + ((part * n_directions + direction) * n_part_slots + part_slot) * batch * PART
        )
        value += tl.load(block + inner, mask=valid, other=0.0).to(tl.float32)
    here = (direction * n_steps + step) * batch * OUT + offsets
    above = tl.load(d_outputs + here, mask=valid, other=0.0).to(tl.float32)
    if HAS_FLAGS:
        carried_at = carried + direction * batch * OUT + offsets
        value += tl.load(carried_at, mask=valid, other=0.0)
        flag_at = flags + (direction * n_steps + step) * batch + rows
        if step + 1 < n_steps:
            is_reset = (tl.load(flag_at + batch, mask=valid, other=0) & RESET) != 0
            value = tl.where(is_reset, 0.0, value)
        is_padding = (tl.load(flag_at, mask=valid, other=0) & PADDING) != 0
        tl.store(carried_at, tl.where(is_padding, value, 0.0), mask=valid)
        value = tl.where(is_padding, 0.0, value)
        above = tl.where(is_padding, 0.0, above)
    value += above
    if CLIP:
        output = tl.load(outputs + here, mask=valid, other=0.0).to(tl.float32)
        value = tl.where(tl.abs(output) < bound, value, 0.0)
    tl.store(upstream + here, value.to(upstream.dtype.element_ty), mask=valid)
