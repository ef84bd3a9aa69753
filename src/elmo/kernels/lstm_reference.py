"""Reference implementation of one LSTM layer with projection and clipping, in plain PyTorch.

The LSTM cell is the same as in bilm-tf (Sak et al., 2014, with clipping).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.lstm_call import LSTMCall, LSTMResult

# The gates of a chunk of steps are computed in one product. A chunk has at most this many values,
# so that it fits in the cache (16 MiB), and a sentence of any length in memory.
CHUNK_VALUES = 2**22
# If the input is an index into few vectors, the gates of each vector are computed once, unless
# that would be more values than this (64 MiB).
SHARED_VALUES = 2**24


def lstm(directions: Sequence[LSTMCall]) -> list[LSTMResult]:
    """Run the layer over all time steps in each direction.

    A step computes `c' = clip(σ(f)·c + σ(i)·tanh(g))` and `h' = clip(W_hr (σ(o)·tanh(c')))`.

    """
    return [_run_direction(direction) for direction in directions]


def _run_direction(direction: LSTMCall) -> LSTMResult:
    positions = direction.x if direction.index is None else direction.index
    n_steps, batch = positions.shape[:2]
    inputs = _InputGates(direction.x, direction.index, direction.weight_ih, direction.bias)
    chunk = max(1, CHUNK_VALUES // max(1, batch * direction.weight_ih.shape[0]))
    starts = range(0, n_steps, chunk)
    # The loop computes with features first: BLAS is fastest for wide weights times few columns, and
    # the four gates are contiguous blocks.
    h, c = direction.h, direction.c.t()
    active, clip, reverse = direction.active, direction.projection_clip, direction.reverse
    outputs: list[Tensor] = []
    for start in reversed(starts) if reverse else starts:
        counts = [batch] * min(chunk, n_steps - start)
        if active is not None:
            counts = list(active[start : start + chunk])
        chunk_gates = inputs.gates_of_steps(start, counts)
        # Under autocast the product determines the dtype: convert the weights once per chunk.
        dtype = chunk_gates[0].dtype
        recurrent = direction.weight_hh.to(dtype)
        projection = None if direction.weight_hr is None else direction.weight_hr.to(dtype)
        steps = range(len(chunk_gates))
        for step in reversed(steps) if reverse else steps:
            n = chunk_gates[step].shape[1]
            if direction.resets is not None:
                is_kept = ~direction.resets[start + step]
                h, c = h * is_kept.unsqueeze(1), c * is_kept
            gates = torch.addmm(chunk_gates[step], recurrent, h[:n].t().to(dtype))
            new_c, out = _cell(gates, c[:, :n], direction.cell_clip)
            new_h = out.to(dtype)
            if projection is not None:
                new_h = projection @ new_h
                if clip is not None:
                    new_h = new_h.clamp(-clip, clip)
            new_h = new_h.t().contiguous()  # (batch, projection)
            if active is None:
                is_real = direction.mask[start + step]
                outputs.append(new_h * is_real.unsqueeze(1))
                h = torch.where(is_real.unsqueeze(1), new_h, h.to(dtype))
                c = torch.where(is_real, new_c, c)
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
    """Return the new cell and the output before projection, both (cell, batch)."""
    i, f, g, o = gates.chunk(4)
    if torch.is_grad_enabled() or gates.dtype != c.dtype:
        new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        if clip is not None:
            new_c = new_c.clamp(-clip, clip)
        return new_c, o.sigmoid() * new_c.tanh()
    # The same in place: allocating memory would cost as much as the computation.
    gates[: 2 * len(i)].sigmoid_()
    new_c = f.mul_(c).addcmul_(i, g.tanh_())
    if clip is not None:
        new_c.clamp_(-clip, clip)
    return new_c, o.sigmoid_().mul_(torch.tanh(new_c, out=i))


class _InputGates:
    """Contribution of the input to the gates, computed for one chunk of steps at a time."""

    def __init__(self, x: Tensor, index: Tensor | None, weight: Tensor, bias: Tensor) -> None:
        self.weight = weight
        self.bias = bias.unsqueeze(1)
        self.shared_gates: Tensor | None = None
        if index is not None:
            # With gradients, sharing costs more than it saves.
            if torch.is_grad_enabled() or x.shape[0] * weight.shape[0] > SHARED_VALUES:
                # Not x[index]: the order of summation of its gradient is not deterministic.
                x = functional.embedding(index, x)
            else:
                self.shared_gates = torch.addmm(self.bias, weight, x.t())
                x = index
        # (time, batch, dim), or the columns of the shared gates, (time, batch).
        self.positions = x

    def gates_of_steps(self, start: int, counts: Sequence[int]) -> Sequence[Tensor]:
        """Return the input's contribution to the gates for each step, (4 * cell, active rows).

        `counts` are the numbers of active rows at each step, starting at `start`.
        """
        steps = self.positions[start : start + len(counts)]
        if sum(counts) == steps.shape[0] * steps.shape[1]:
            rows = steps.flatten(0, 1)
        else:
            rows = torch.cat([step[:n] for step, n in zip(steps, counts, strict=True)])
        if self.shared_gates is None:
            gates = torch.addmm(self.bias, self.weight, rows.t())
        else:
            gates = self.shared_gates.index_select(1, rows)
        return torch.split(gates, list(counts), dim=1)
