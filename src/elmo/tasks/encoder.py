"""The model's own layers between input and head: a BiLSTM with locked dropout.

Where it is deep, highways let what a layer reads pass by it (Srivastava et al., 2015; for semantic
roles He et al., 2017): plain layers on top of each other learn slowly above two or three.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.input_features import ELMoMix
from elmo.tasks.packed_batch import PackedBatch


class TaskEncoder(nn.Module):
    """Vectors of words to vectors of words in their text; ELMo may stand beside them again."""

    def __init__(
        self,
        *,
        config: TaskEncoderConfig,
        elmo: TaskELMoConfig,
        input_dim: int,
        n_layers: int = 0,
        elmo_dim: int = 0,
    ) -> None:
        """Make it.

        Args:
            config: its dials.
            elmo: dials of the mix at the output.
            input_dim: width of the vectors that come in.
            n_layers: layers of ELMo that come in; 0 for no ELMo.
            elmo_dim: their width.
        """
        super().__init__()
        self.config = config
        self.lstm: nn.LSTM | None = None
        self.upper = nn.ModuleList()
        self.dim = input_dim
        if config.hidden:
            depth = 1 if config.highway else config.depth
            self.lstm = nn.LSTM(
                input_dim,
                config.hidden,
                depth,
                batch_first=True,
                bidirectional=True,
                dropout=config.dropout if depth > 1 else 0.0,
            )
            self.dim = 2 * config.hidden
            self.upper.extend(HighwayLSTM(self.dim) for _ in range(config.depth - depth))
        self.mix: ELMoMix | None = None
        if n_layers and elmo.placement in ("output", "both"):
            self.mix = ELMoMix(elmo, n_layers)
            self.dim += elmo_dim

    def forward(self, x: Tensor, layout: PackedBatch, layers: Tensor | None) -> Tensor:
        """Map (batch, time, input_dim) to (batch, time, dim).

        Args:
            x: vectors, zero at padding.
            layout: where its words stand.
            layers: of ELMo, (layers, batch, time, elmo_dim).
        """
        x = locked_dropout(x, self.config.input_dropout, self.training)
        if self.lstm is not None:
            x = read_by(self.lstm, x, layout)
            x = locked_dropout(x, self.config.dropout, self.training)
            for layer in self.upper:
                x = layer(x, layout)
                x = locked_dropout(x, self.config.dropout, self.training)
        if self.mix is not None:
            assert layers is not None
            x = torch.cat([x, self.mix(layers)], dim=-1)
        return x


class HighwayLSTM(nn.Module):
    """A BiLSTM layer, and a gate for each number that says how much of it is new."""

    def __init__(self, dim: int) -> None:
        """Make it as wide as what it reads."""
        super().__init__()
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x: Tensor, layout: PackedBatch) -> Tensor:
        """Map (batch, time, dim) to the same."""
        return torch.lerp(x, read_by(self.lstm, x, layout), self.gate(x).sigmoid())


def read_by(lstm: nn.LSTM, x: Tensor, layout: PackedBatch) -> Tensor:
    """Run an LSTM over texts of different lengths, zeros at padding."""
    return layout.unpack(lstm(layout.pack(x))[0])


def locked_dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Leave out the same features at all words of a text, (batch, time, dim)."""
    if not training or not share:
        return x
    return x * functional.dropout(torch.ones_like(x[:, :1]), share)
