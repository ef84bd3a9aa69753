"""One LSTM layer in one direction, with projection and both clips, in plain PyTorch: the truth.

Follows the cell of bilm-tf (Sak et al., 2014, with clipping). Knows nothing of stacks, residuals
or sentences.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

# The gates of a chunk of steps are computed in one product; a chunk holds at most this many
# values, so that a sentence of any length fits in memory, and the chunk in the cache (16 MiB).
CHUNK_VALUES = 2**22
# Where the input is few vectors in many places, the gates of each vector are computed once; not
# if they would be more values than this (64 MiB).
SHARED_VALUES = 2**24


def lstm(
    x: Tensor,
    *,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    weight_hr: Tensor | None,
    h: Tensor,
    c: Tensor,
    mask: Tensor,
    active: Sequence[int] | None,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
    index: Tensor | None = None,
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the layer over time, from the end where `reverse` is set.

    A step is `c' = clip(σ(f)·c + σ(i)·tanh(g))`, `h' = clip(W_hr (σ(o)·tanh(c')))`. At padding the
    state stays as it is and the output is 0, so padding on the right is crossed by the reversed
    direction before its first real step, with the initial state untouched. Padding is told by a
    mask, or, where rows are sorted by falling length and the host knows it, by the number of
    rows still active at each step: then it is not computed at all.

    Args:
        x: input, (time, batch, dim), or with `index` (vectors, dim).
        weight_ih: input weights, (4 * cell, dim), gates in the order i, f, g, o.
        weight_hh: recurrent weights, (4 * cell, projection).
        bias: (4 * cell), the forget bias included.
        weight_hr: projection, (projection, cell), or None where both widths are equal.
        h: initial output, (batch, projection).
        c: initial cell, (batch, cell); its precision is kept.
        mask: true at real positions, (time, batch).
        active: rows still active at each step, never growing; the mask is not looked at then.
        cell_clip: bound of the cell.
        projection_clip: bound of the projected output; ignored without projection.
        reverse: walk from the last step to the first.
        index: which vector of x stands where, (time, batch).
        resets: true where the state is zero before the step, (time, batch).

    Returns:
        Outputs (time, batch, projection), final h and final c.
    """
    n_steps, batch = x.shape[:2] if index is None else index.shape
    inputs = _InputGates(x, index, weight_ih, bias)
    chunk = max(1, CHUNK_VALUES // max(1, batch * weight_ih.shape[0]))
    starts = range(0, n_steps, chunk)
    # Inside, the cell has its features first: wide weights times a few columns is what matrix
    # libraries do best, and the four gates are contiguous blocks.
    c = c.t()
    outputs: list[Tensor] = []
    for start in reversed(starts) if reverse else starts:
        counts = [batch] * min(chunk, n_steps - start)
        if active is not None:
            counts = list(active[start : start + chunk])
        chunk_gates = inputs.of_steps(start, counts)
        # Under autocast the product decides the precision: follow it, once and not at each step.
        dtype = chunk_gates[0].dtype
        recurrent = weight_hh.to(dtype)
        projection = None if weight_hr is None else weight_hr.to(dtype)
        steps = range(len(chunk_gates))
        for step in reversed(steps) if reverse else steps:
            n = chunk_gates[step].shape[1]
            if resets is not None:
                kept = ~resets[start + step]
                h, c = h * kept.unsqueeze(1), c * kept
            gates = torch.addmm(chunk_gates[step], recurrent, h[:n].t().to(dtype))
            new_c, out = _cell(gates, c[:, :n], cell_clip)
            new_h = out.to(dtype)
            if projection is not None:
                new_h = projection @ new_h
                if projection_clip is not None:
                    new_h = new_h.clamp(-projection_clip, projection_clip)
            new_h = new_h.t().contiguous()  # (batch, projection)
            if active is None:
                real = mask[start + step]
                outputs.append(new_h * real.unsqueeze(1))
                h = torch.where(real.unsqueeze(1), new_h, h.to(dtype))
                c = torch.where(real, new_c, c)
            elif n < batch:
                outputs.append(functional.pad(new_h, (0, 0, 0, batch - n)))
                h = torch.cat([new_h, h[n:].to(dtype)])
                c = torch.cat([new_c, c[:, n:]], dim=1)
            else:
                outputs.append(new_h)
                h, c = new_h, new_c
    if reverse:
        outputs.reverse()
    return torch.stack(outputs), h, c.t().contiguous()


def _cell(gates: Tensor, c: Tensor, clip: float | None) -> tuple[Tensor, Tensor]:
    """Give the new cell and the output before projection, both (cell, batch)."""
    i, f, g, o = gates.chunk(4)
    if torch.is_grad_enabled() or gates.dtype != c.dtype:
        new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        if clip is not None:
            new_c = new_c.clamp(-clip, clip)
        return new_c, o.sigmoid() * new_c.tanh()
    # The same in place: fresh memory costs as much as the arithmetic.
    gates[: 2 * len(i)].sigmoid_()
    new_c = f.mul_(c).addcmul_(i, g.tanh_())
    if clip is not None:
        new_c.clamp_(-clip, clip)
    return new_c, o.sigmoid_().mul_(torch.tanh(new_c, out=i))


class _InputGates:
    """The input's share of the gates, for a chunk of steps at a time."""

    def __init__(self, x: Tensor, index: Tensor | None, weight: Tensor, bias: Tensor) -> None:
        self.weight = weight
        self.bias = bias.unsqueeze(1)
        self.shared: Tensor | None = None
        if index is not None:
            # The gradient of sharing costs more than sharing saves.
            if torch.is_grad_enabled() or x.shape[0] * weight.shape[0] > SHARED_VALUES:
                # Not x[index]: its gradient adds up in whatever order the threads come.
                x = functional.embedding(index, x)
            else:
                self.shared = torch.addmm(self.bias, weight, x.t())
                x = index
        self.places = x  # (time, batch, dim), or (time, batch) into the shared ones

    def of_steps(self, start: int, counts: Sequence[int]) -> Sequence[Tensor]:
        """Give (4 * cell, active rows) for each step from `start`, one for each count."""
        steps = self.places[start : start + len(counts)]
        if sum(counts) == steps.shape[0] * steps.shape[1]:
            rows = steps.flatten(0, 1)
        else:
            rows = torch.cat([step[:n] for step, n in zip(steps, counts, strict=True)])
        if self.shared is None:
            gates = torch.addmm(self.bias, self.weight, rows.t())
        else:
            gates = self.shared.index_select(1, rows)
        return torch.split(gates, list(counts), dim=1)
