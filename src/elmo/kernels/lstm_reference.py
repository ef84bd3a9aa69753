"""One LSTM layer with projection and clips, a direction at a time, in plain PyTorch: the truth.

Follows the cell of bilm-tf (Sak et al., 2014, with clipping). Knows nothing of stacks, residuals
or sentences.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.lstm_call import LSTMCall, Walk

# The gates of a chunk of steps are computed in one product; a chunk holds at most this many
# values, so that a sentence of any length fits in memory, and the chunk in the cache (16 MiB).
CHUNK_VALUES = 2**22
# Where the input is few vectors in many places, the gates of each vector are computed once; not
# if they would be more values than this (64 MiB).
SHARED_VALUES = 2**24


def lstm(directions: Sequence[LSTMCall]) -> list[Walk]:
    """Run the layer over time, in each direction.

    A step is `c' = clip(σ(f)·c + σ(i)·tanh(g))`, `h' = clip(W_hr (σ(o)·tanh(c')))`.
    """
    return [_walk(direction) for direction in directions]


def _walk(direction: LSTMCall) -> Walk:
    places = direction.x if direction.index is None else direction.index
    n_steps, batch = places.shape[:2]
    inputs = _InputGates(direction.x, direction.index, direction.weight_ih, direction.bias)
    chunk = max(1, CHUNK_VALUES // max(1, batch * direction.weight_ih.shape[0]))
    starts = range(0, n_steps, chunk)
    # Inside, the cell has its features first: wide weights times a few columns is what matrix
    # libraries do best, and the four gates are contiguous blocks.
    h, c = direction.h, direction.c.t()
    active, clip, reverse = direction.active, direction.projection_clip, direction.reverse
    outputs: list[Tensor] = []
    for start in reversed(starts) if reverse else starts:
        counts = [batch] * min(chunk, n_steps - start)
        if active is not None:
            counts = list(active[start : start + chunk])
        chunk_gates = inputs.of_steps(start, counts)
        # Under autocast the product decides the precision: follow it, once and not at each step.
        dtype = chunk_gates[0].dtype
        recurrent = direction.weight_hh.to(dtype)
        projection = None if direction.weight_hr is None else direction.weight_hr.to(dtype)
        steps = range(len(chunk_gates))
        for step in reversed(steps) if reverse else steps:
            n = chunk_gates[step].shape[1]
            if direction.resets is not None:
                kept = ~direction.resets[start + step]
                h, c = h * kept.unsqueeze(1), c * kept
            gates = torch.addmm(chunk_gates[step], recurrent, h[:n].t().to(dtype))
            new_c, out = _cell(gates, c[:, :n], direction.cell_clip)
            new_h = out.to(dtype)
            if projection is not None:
                new_h = projection @ new_h
                if clip is not None:
                    new_h = new_h.clamp(-clip, clip)
            new_h = new_h.t().contiguous()  # (batch, projection)
            if active is None:
                real = direction.mask[start + step]
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
