"""LSTM layers with projection and clipping, stacked with residual connections.

Both directions run together. The modules are stateless: an `LSTMState` for both directions is
passed in and returned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import LSTMConfig
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels


@dataclass(frozen=True)
class StepMask:
    """Padding and state resets in a batch; see `kernels.lstm_call.LSTMCall`.

    The mask, (time, batch), is ignored if the number of active rows at each step is given, for
    which the rows must be sorted by decreasing length and the lengths be known on the host.
    """

    mask: Tensor
    n_active: Sequence[int] | None
    resets: Tensor | None = None


@dataclass(frozen=True)
class LSTMState:
    """Recurrent state of all layers and both directions, forward before backward.

    Attributes:
        h: Hidden state (projected output), (layers, 2, batch, projection).
        c: Cell state, (layers, 2, batch, cell).
    """

    h: Tensor
    c: Tensor

    @classmethod
    def zeros(
        cls,
        config: LSTMConfig,
        batch: int,
        *,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "LSTMState":
        """Return a zero state. The cell state is in float32 or higher precision."""
        cell_dtype = torch.promote_types(dtype, torch.float32)
        shape = (config.n_layers, 2, batch)
        return cls(
            torch.zeros(*shape, config.projection_dim, device=device, dtype=dtype),
            torch.zeros(*shape, config.cell_dim, device=device, dtype=cell_dtype),
        )

    @classmethod
    def joined(cls, states: Sequence["LSTMState"]) -> "LSTMState":
        """Concatenate states along the batch dimension."""
        if len(states) == 1:
            return states[0]
        return cls(
            torch.cat([state.h for state in states], dim=2),
            torch.cat([state.c for state in states], dim=2),
        )

    @property
    def batch(self) -> int:
        """Batch size."""
        return self.h.shape[2]

    def rows(self, batch: int) -> "LSTMState":
        """Return the state of the first `batch` rows, padded with zeros if there are fewer rows."""
        n_missing = batch - self.batch
        if n_missing <= 0:
            return LSTMState(self.h[:, :, :batch], self.c[:, :, :batch])
        pad = (0, 0, 0, n_missing)
        return LSTMState(nn.functional.pad(self.h, pad), nn.functional.pad(self.c, pad))

    def updated(self, new: "LSTMState") -> "LSTMState":
        """Return a copy in which the first rows are replaced by the rows of `new`."""
        return LSTMState(
            torch.cat([new.h, self.h[:, :, new.batch :]], dim=2),
            torch.cat([new.c, self.c[:, :, new.batch :]], dim=2),
        )

    def select(self, rows: Tensor) -> "LSTMState":
        """Return the state of the rows with the given indices, in the given order."""
        return LSTMState(self.h[:, :, rows], self.c[:, :, rows])

    def detach(self) -> "LSTMState":
        """Return the state detached from the autograd graph."""
        return LSTMState(self.h.detach(), self.c.detach())


class LSTMLayer(nn.Module):
    """Weights of one LSTM layer in one direction. The computation is in `elmo.kernels`."""

    def __init__(self, *, config: LSTMConfig) -> None:
        """Create a layer with uninitialized weights."""
        super().__init__()
        self.config = config
        self.weight_drop = 0.0
        """Dropout rate of the recurrent weights in training (Merity et al., 2018)."""
        n_gates = 4 * config.cell_dim
        self.weight_ih = nn.Parameter(torch.empty(n_gates, config.projection_dim))
        self.weight_hh = nn.Parameter(torch.empty(n_gates, config.projection_dim))
        self.bias = nn.Parameter(torch.empty(n_gates))
        self.weight_hr: nn.Parameter | None = None
        if config.has_projection:
            self.weight_hr = nn.Parameter(torch.empty(config.projection_dim, config.cell_dim))

    def bias_with_forget(self) -> Tensor:
        """Return the bias parameter with `forget_bias` added to the forget gate.

        The parameter itself does not include `forget_bias`: in floating point, `(b + 1) - 1` is not
        always `b`, and loading and saving a file must not change it.
        """
        if not self.config.forget_bias:
            return self.bias
        i, f, g, o = self.bias.chunk(4)
        return torch.cat([i, f + self.config.forget_bias, g, o])

    def kernel_call(
        self,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        step_mask: StepMask,
        reverse: bool,
        index: Tensor | None = None,
    ) -> LSTMCall:
        """Return the `LSTMCall` that runs this layer on x, starting from h and c."""
        weight_hh: Tensor = self.weight_hh
        if self.weight_drop:
            weight_hh = functional.dropout(weight_hh, self.weight_drop, self.training)
        return LSTMCall(
            x,
            weight_ih=self.weight_ih,
            weight_hh=weight_hh,
            bias=self.bias_with_forget(),
            weight_hr=self.weight_hr,
            h=h,
            c=c,
            mask=step_mask.mask,
            active=step_mask.n_active,
            cell_clip=self.config.cell_clip,
            projection_clip=self.config.projection_clip,
            reverse=reverse,
            index=index,
            resets=step_mask.resets,
        )


class LSTMStack(nn.Module):
    """Stack of LSTM layers for one direction, optionally with residual connections."""

    def __init__(self, *, config: LSTMConfig) -> None:
        """Create a stack with uninitialized weights."""
        super().__init__()
        self.residual = config.residual
        self.layers = nn.ModuleList(LSTMLayer(config=config) for _ in range(config.n_layers))


@dataclass(frozen=True)
class StackCall:
    """An LSTM stack of one direction and the input to run it on.

    The token vectors are (time, batch, dim), or (vectors, dim) with `index`, the row at each
    position, (time, batch).
    """

    stack: LSTMStack
    x: Tensor
    step_mask: StepMask
    reverse: bool
    index: Tensor | None = None


def run_stacks(
    calls: Sequence[StackCall],
    state: LSTMState,
    dropout: Callable[[Tensor, int], Tensor] | None = None,
    n_layers: int | None = None,
    *,
    kernels: Kernels = AUTO_KERNELS,
) -> tuple[list[list[Tensor]], LSTMState]:
    """Run stacks of equal depth together, with one kernel call per layer for all of them.

    The calls, one per direction, have the initial state. `dropout` is applied to the input of a
    layer, given its number. `n_layers` is the number of layers to run, from the bottom; by default
    all. Returns the output of every layer for each call, (time, batch, dim), and the final state.
    """
    inputs = [call.x for call in calls]
    outputs: list[list[Tensor]] = [[] for _ in calls]
    final_h: list[Tensor] = []
    final_c: list[Tensor] = []
    n_layers = len(calls[0].stack.layers) if n_layers is None else n_layers
    for depth in range(n_layers):
        kernel_calls: list[LSTMCall] = []
        for direction, call in enumerate(calls):
            if dropout is not None:
                inputs[direction] = dropout(inputs[direction], depth)
            layer = call.stack.layers[depth]
            assert isinstance(layer, LSTMLayer)
            h, c = state.h[depth, direction], state.c[depth, direction]
            index = call.index if depth == 0 else None
            kernel_calls.append(
                layer.kernel_call(inputs[direction], h, c, call.step_mask, call.reverse, index)
            )
        results = kernels.lstm(kernel_calls)
        for direction, (call, (out, h, c)) in enumerate(zip(calls, results, strict=True)):
            # The recurrent state is the output before the residual is added.
            has_residual = call.stack.residual and depth > 0
            inputs[direction] = out + inputs[direction] if has_residual else out
            outputs[direction].append(inputs[direction])
            final_h.append(h)
            final_c.append(c)
    if n_layers == 0:
        return outputs, LSTMState(state.h[:0], state.c[:0])
    new_h, new_c = (
        torch.stack(values).view(n_layers, len(calls), *values[0].shape)
        for values in (final_h, final_c)
    )
    return outputs, LSTMState(new_h, new_c)
