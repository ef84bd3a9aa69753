"""LSTM layers with projection and clipping, stacked with residuals; both directions run together.

State is an argument and a result: `LSTMState` holds both directions, nothing is remembered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import LSTMConfig
from elmo.kernels import dispatch
from elmo.kernels.lstm_call import LSTMCall


@dataclass(frozen=True)
class Steps:
    """What the steps of a batch are besides arithmetic; see `kernels.direction.Direction`.

    Attributes:
        mask: true at real positions, (time, batch).
        active: rows still active at each step, where rows are sorted by falling length and the
            host knows the lengths; the mask is not looked at then.
        resets: true where a row's state is zero before the step, (time, batch); None for nowhere.
    """

    mask: Tensor
    active: Sequence[int] | None
    resets: Tensor | None = None


@dataclass(frozen=True)
class LSTMState:
    """Recurrent state of all layers and both directions, forward before backward.

    Attributes:
        h: projected outputs, (layers, 2, batch, projection).
        c: cells, (layers, 2, batch, cell).
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
        """Give the state every sentence starts from; the cell is never narrower than float32."""
        cell_dtype = torch.promote_types(dtype, torch.float32)
        shape = (config.n_layers, 2, batch)
        return cls(
            torch.zeros(*shape, config.projection_dim, device=device, dtype=dtype),
            torch.zeros(*shape, config.cell_dim, device=device, dtype=cell_dtype),
        )

    @classmethod
    def joined(cls, states: Sequence["LSTMState"]) -> "LSTMState":
        """Put the rows of several states under each other."""
        if len(states) == 1:
            return states[0]
        return cls(
            torch.cat([state.h for state in states], dim=2),
            torch.cat([state.c for state in states], dim=2),
        )

    @property
    def batch(self) -> int:
        """Rows of the batch."""
        return self.h.shape[2]

    def rows(self, batch: int) -> "LSTMState":
        """Give the first `batch` rows, new ones being zero: how a carried table meets a batch."""
        missing = batch - self.batch
        if missing <= 0:
            return LSTMState(self.h[:, :, :batch], self.c[:, :, :batch])
        pad = (0, 0, 0, missing)
        return LSTMState(nn.functional.pad(self.h, pad), nn.functional.pad(self.c, pad))

    def updated(self, new: "LSTMState") -> "LSTMState":
        """Put the rows of `new` in place of the first ones and keep the rest."""
        return LSTMState(
            torch.cat([new.h, self.h[:, :, new.batch :]], dim=2),
            torch.cat([new.c, self.c[:, :, new.batch :]], dim=2),
        )

    def select(self, rows: Tensor) -> "LSTMState":
        """Give the rows at these numbers, in this order."""
        return LSTMState(self.h[:, :, rows], self.c[:, :, rows])

    def detach(self) -> "LSTMState":
        """Cut the state off the graph."""
        return LSTMState(self.h.detach(), self.c.detach())


class LSTMLayer(nn.Module):
    """The weights of one layer in one direction; the arithmetic is in `kernels`."""

    def __init__(self, *, config: LSTMConfig) -> None:
        """Make a layer.

        Args:
            config: its dials.
        """
        super().__init__()
        self.config = config
        self.weight_drop = 0.0
        """Dropout of the recurrent weights in training (Merity et al., 2018)."""
        n_gates = 4 * config.cell_dim
        self.weight_ih = nn.Parameter(torch.empty(n_gates, config.projection_dim))
        self.weight_hh = nn.Parameter(torch.empty(n_gates, config.projection_dim))
        self.bias = nn.Parameter(torch.empty(n_gates))
        self.weight_hr: nn.Parameter | None = None
        if config.has_projection:
            self.weight_hr = nn.Parameter(torch.empty(config.projection_dim, config.cell_dim))

    def bias_with_forget(self) -> Tensor:
        """Give the stored bias with `forget_bias` added to the forget gate.

        It is kept out of the parameter because `(b + 1) - 1` is not `b`: a file read and written
        again must not change.
        """
        if not self.config.forget_bias:
            return self.bias
        i, f, g, o = self.bias.chunk(4)
        return torch.cat([i, f + self.config.forget_bias, g, o])

    def direction(
        self,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        steps: Steps,
        reverse: bool,
        index: Tensor | None = None,
    ) -> LSTMCall:
        """Give what a kernel needs to run over x from state h, c; see there for the arguments."""
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
            mask=steps.mask,
            active=steps.active,
            cell_clip=self.config.cell_clip,
            projection_clip=self.config.projection_clip,
            reverse=reverse,
            index=index,
            resets=steps.resets,
        )


class LSTMStack(nn.Module):
    """The layers of one direction; each feeds its residual-added output to the next."""

    def __init__(self, *, config: LSTMConfig) -> None:
        """Make a stack.

        Args:
            config: dials of its layers.
        """
        super().__init__()
        self.kernel = "auto"
        """Name of the implementation, as `kernels.choose` knows it."""
        self.residual = config.residual
        self.layers = nn.ModuleList(LSTMLayer(config=config) for _ in range(config.n_layers))


@dataclass(frozen=True)
class Side:
    """One of the stacks that run together, and what it reads.

    Attributes:
        stack: its layers.
        x: token vectors, (time, batch, dim), or with `index` (vectors, dim).
        steps: padding and resets.
        reverse: read from the end.
        index: which vector of x stands where, (time, batch).
    """

    stack: LSTMStack
    x: Tensor
    steps: Steps
    reverse: bool
    index: Tensor | None = None


def run_stacks(
    sides: Sequence[Side],
    state: LSTMState,
    drop: Callable[[Tensor, int], Tensor] | None = None,
    n_layers: int | None = None,
) -> tuple[list[list[Tensor]], LSTMState]:
    """Run stacks of equal depth together: a layer of all of them is one call of a kernel.

    Args:
        sides: stacks and what they read; the kernel is that of the first.
        state: initial state, a direction for each side.
        drop: dropout of the input of each layer, told its number.
        n_layers: how many layers are run; all where None.

    Returns:
        The outputs of these layers of each side, (time, batch, dim), and their final state.
    """
    inputs = [side.x for side in sides]
    outputs: list[list[Tensor]] = [[] for _ in sides]
    final_h: list[Tensor] = []
    final_c: list[Tensor] = []
    n_layers = len(sides[0].stack.layers) if n_layers is None else n_layers
    for depth in range(n_layers):
        directions: list[LSTMCall] = []
        for number, side in enumerate(sides):
            if drop is not None:
                inputs[number] = drop(inputs[number], depth)
            layer = side.stack.layers[depth]
            assert isinstance(layer, LSTMLayer)
            h, c = state.h[depth, number], state.c[depth, number]
            index = side.index if depth == 0 else None
            directions.append(
                layer.direction(inputs[number], h, c, side.steps, side.reverse, index)
            )
        walks = dispatch.lstm(directions, sides[0].stack.kernel)
        for number, (side, (out, h, c)) in enumerate(zip(sides, walks, strict=True)):
            # The recurrent state is the output before the residual is added.
            is_added = side.stack.residual and depth > 0
            inputs[number] = out + inputs[number] if is_added else out
            outputs[number].append(inputs[number])
            final_h.append(h)
            final_c.append(c)
    if n_layers == 0:
        return outputs, LSTMState(state.h[:0], state.c[:0])
    new_h, new_c = (
        torch.stack(values).view(n_layers, len(sides), *values[0].shape)
        for values in (final_h, final_c)
    )
    return outputs, LSTMState(new_h, new_c)
