"""Weights of one recurrent layer; `elmo.kernels.recurrent_kernels` computes it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config.language_models import RecurrentConfig
from elmo.kernels.recurrent_call import GATES, MogrifierRound, RecurrentCall

# Initial bias of the forget gate of an LSTM: at first it keeps most of its cell.
FORGET_BIAS = 1.0


@dataclass(frozen=True)
class RecurrentState:
    """State of all layers of a network.

    Attributes:
        h: Hidden state of each layer, (batch, output_dim).
        c: Cell state of each layer, (batch, hidden_dim); empty for cells without one.
    """

    h: tuple[Tensor, ...]
    c: tuple[Tensor, ...]

    def detach(self) -> "RecurrentState":
        """Return the state without its gradients."""
        return RecurrentState(
            tuple(value.detach() for value in self.h), tuple(value.detach() for value in self.c)
        )

    def copy_(self, other: "RecurrentState") -> None:
        """Overwrite the values, in place."""
        for mine, new in zip((*self.h, *self.c), (*other.h, *other.c), strict=True):
            mine.copy_(new)

    def zero_(self) -> None:
        """Set all values to 0, in place."""
        for value in (*self.h, *self.c):
            value.zero_()

    def select(self, rows: Tensor) -> "RecurrentState":
        """Return the state of the rows with the given indices."""
        return RecurrentState(
            tuple(value[rows] for value in self.h), tuple(value[rows] for value in self.c)
        )


class RecurrentLayer(nn.Module):
    """One recurrent layer, with the weights of PyTorch's modules in the same order."""

    def __init__(
        self, *, config: RecurrentConfig, input_dim: int, hidden_dim: int, output_dim: int
    ) -> None:
        """Create a layer with uninitialized weights."""
        super().__init__()
        self.config, self.hidden_dim, self.output_dim = config, hidden_dim, output_dim
        n_rows = GATES[config.cell] * hidden_dim
        self.weight_ih = nn.Parameter(torch.empty(n_rows, input_dim))
        self.weight_hh = nn.Parameter(torch.empty(n_rows, output_dim))
        self.bias_ih = nn.Parameter(torch.empty(n_rows))
        self.bias_hh = nn.Parameter(torch.empty(n_rows))
        self.weight_hr: nn.Parameter | None = None
        if config.cell == "lstmp":
            self.weight_hr = nn.Parameter(torch.empty(output_dim, hidden_dim))
        # Even rounds scale the input by the state, odd rounds the state by the input.
        dims = (input_dim, output_dim)
        self.mogrifier = nn.ModuleList(
            _Gate(dims[number % 2], dims[1 - number % 2], config.mogrifier_rank)
            for number in range(config.mogrifier_rounds)
        )

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights: uniform as in PyTorch, with orthogonal recurrent weights for an RNN."""
        bound = 1.0 / math.sqrt(self.hidden_dim)
        with torch.no_grad():
            for value in self.parameters():
                value.uniform_(-bound, bound, generator=generator)
            if self.config.cell == "rnn":
                nn.init.orthogonal_(self.weight_hh, generator=generator)
            if self.config.cell in ("lstm", "lstmp"):
                self.bias_ih.chunk(4)[1].fill_(FORGET_BIAS)
                self.bias_hh.chunk(4)[1].zero_()

    def call(
        self,
        x: Tensor,
        h: Tensor,
        c: Tensor | None,
        *,
        weight_drop: float = 0.0,
        state_dropout: float = 0.0,
    ) -> RecurrentCall:
        """Return the kernel call for an input (time, batch, dim) and an initial state.

        Dropout is applied only in training mode.
        """
        weight_hh: Tensor = self.weight_hh
        if weight_drop:
            weight_hh = functional.dropout(weight_hh, weight_drop, self.training)
        state_mask = None
        if state_dropout and self.training:
            state_mask = functional.dropout(torch.ones_like(h), state_dropout)
        return RecurrentCall(
            cell=self.config.cell,
            x=x,
            h=h,
            c=c,
            weight_ih=self.weight_ih,
            weight_hh=weight_hh,
            bias_ih=self.bias_ih,
            bias_hh=self.bias_hh,
            weight_hr=self.weight_hr,
            activation=self.config.nonlinearity,
            state_mask=state_mask,
            mogrifier=tuple(gate.round() for gate in self.mogrifier if isinstance(gate, _Gate)),
        )


class _Gate(nn.Module):
    """Weights of a Mogrifier round, which scales a vector by a sigmoid of another vector."""

    def __init__(self, scaled_dim: int, other_dim: int, rank: int | None) -> None:
        super().__init__()
        if rank is None:
            self.left = nn.Parameter(torch.empty(scaled_dim, other_dim))
            self.right: nn.Parameter | None = None
        else:
            self.left = nn.Parameter(torch.empty(scaled_dim, rank))
            self.right = nn.Parameter(torch.empty(rank, other_dim))

    def round(self) -> MogrifierRound:
        return MogrifierRound(self.left, self.right)
