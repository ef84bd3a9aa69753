"""Arguments and result of a recurrent layer of a language model, shared by its kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from elmo.errors import ConfigError, InputError

Cell = Literal["rnn", "gru", "lstm", "lstmp"]
Activation = Literal["tanh", "relu"]

GATES: dict[Cell, int] = {"rnn": 1, "gru": 3, "lstm": 4, "lstmp": 4}
"""Number of gates, including the candidate: rows of the weights per hidden unit."""


@dataclass(frozen=True)
class MogrifierRound:
    """Weights of one round of mutual gating, which scales one of input and state by the other.

    Attributes:
        left: Weight, (scaled dim, other dim), or its left factor, (scaled dim, rank).
        right: Right factor, (rank, other dim), or None if the weight has full rank.
    """

    left: Tensor
    right: Tensor | None = None


@dataclass(frozen=True)
class RecurrentCall:
    """Arguments of a kernel call that runs one layer over all time steps.

    Weights have the shapes and the gate order of `nn.RNN`, `nn.GRU` and `nn.LSTM`: i, f, g, o for
    LSTMs and r, z, n for GRUs. "lstmp" is an LSTM with projection.

    Attributes:
        cell: Cell type.
        x: Input, (time, batch, dim).
        h: Initial hidden state, (batch, output dim).
        c: Initial cell state of "lstm" and "lstmp", (batch, hidden). None for other cells.
        weight_ih: Input weights, (gates * hidden, dim).
        weight_hh: Recurrent weights, (gates * hidden, output dim).
        bias_ih: Bias of the input, (gates * hidden,).
        bias_hh: Bias of the recurrent product, (gates * hidden,).
        weight_hr: Projection of "lstmp", (output dim, hidden). None for other cells.
        activation: Activation function of "rnn". Ignored for other cells.
        state_mask: Factors of the hidden state in each recurrent product, (batch, output dim):
            dropout with the same units at all steps. The update gate of a GRU reads the state
            without the mask.
        mogrifier: Rounds of mutual gating before each step of "lstm" (Melis et al., 2020): the
            first, third, ... round computes `x = 2σ(Q h)·x`, the others `h = 2σ(R x)·h`. They read
            the state after `state_mask`.
    """

    cell: Cell
    x: Tensor
    h: Tensor
    c: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    weight_hr: Tensor | None = None
    activation: Activation = "tanh"
    state_mask: Tensor | None = None
    mogrifier: Sequence[MogrifierRound] = ()

    def __post_init__(self) -> None:
        """Validate the shapes.

        Raises:
            InputError: The input has no time steps or the wrong number of dimensions.
            ConfigError: The cell is unknown, or a tensor does not match the others.
        """
        if self.x.dim() != 3 or len(self.x) == 0:
            raise InputError(
                "The input of a recurrent layer must be (time, batch, dim) with at least one step, "
                f"but has the shape {tuple(self.x.shape)}."
            )
        if self.cell not in GATES:
            raise ConfigError(f"Unknown cell {self.cell!r}. Expected one of: {', '.join(GATES)}.")
        if self.activation not in ("tanh", "relu"):
            raise ConfigError(f"Unknown activation {self.activation!r}. Expected tanh or relu.")
        if self.mogrifier and self.cell != "lstm":
            raise ConfigError(f"Mogrifier gates need the cell 'lstm', not {self.cell!r}.")
        self._check_shapes()

    @property
    def hidden_dim(self) -> int:
        """Number of hidden units, before the projection."""
        return self.weight_hh.shape[0] // GATES[self.cell]

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that the result is differentiable in."""
        optional = (self.c, self.weight_hr, self.state_mask)
        rounds = (weight for step in self.mogrifier for weight in (step.left, step.right))
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        given = (tensor for tensor in (*optional, *rounds) if tensor is not None)
        return (self.x, self.h, *weights, *given)

    def _check_shapes(self) -> None:
        _, batch, dim = self.x.shape
        rows, hidden = self.weight_hh.shape[0], self.hidden_dim
        out = hidden if self.weight_hr is None else self.weight_hr.shape[0]
        has_cell_state = self.cell in ("lstm", "lstmp")
        expected: dict[str, tuple[int, ...] | None] = {
            "weight_ih": (GATES[self.cell] * hidden, dim),
            "weight_hh": (GATES[self.cell] * hidden, out),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
            "weight_hr": (out, hidden) if self.cell == "lstmp" else None,
            "h": (batch, out),
            "c": (batch, hidden) if has_cell_state else None,
        }
        if self.state_mask is not None:
            expected["state_mask"] = (batch, out)
        for name, shape in expected.items():
            tensor: Tensor | None = getattr(self, name)
            if (None if tensor is None else tuple(tensor.shape)) != shape:
                found = "None" if tensor is None else f"the shape {tuple(tensor.shape)}"
                raise ConfigError(
                    f"{name} of a recurrent layer ({self.cell}) must be "
                    f"{'None' if shape is None else shape}, but is {found}."
                )


@dataclass(frozen=True)
class RecurrentResult:
    """Result of a kernel call.

    Attributes:
        output: Hidden states of all steps, (time, batch, output dim).
        h: Final hidden state, (batch, output dim).
        c: Final cell state, (batch, hidden), or None if the cell type has none.
        gates: Recorded values by name, each (time, batch, hidden), or None if not recorded:
            "input", "forget", "candidate", "output" and "cell" of LSTMs, "reset", "update" and
            "candidate" of GRUs, nothing of RNNs.
    """

    output: Tensor
    h: Tensor
    c: Tensor | None
    gates: dict[str, Tensor] | None = None
