"""Task encoder between the input features and the head: a BiLSTM with locked dropout.

More than two or three plain LSTM layers are slow to train. Highway connections between layers make
deep encoders trainable (Srivastava et al., 2015; He et al., 2017 for semantic role labeling).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.core.input_features import ELMoMix
from elmo.tasks.core.packed_batch import PackedBatch


class TaskEncoder(nn.Module):
    """BiLSTM that computes contextual word vectors and optionally appends an ELMo layer mix."""

    def __init__(
        self,
        *,
        config: TaskEncoderConfig,
        elmo: TaskELMoConfig,
        input_dim: int,
        n_layers: int = 0,
        elmo_dim: int = 0,
    ) -> None:
        """Initialize the encoder; `n_layers` > 0 appends an ELMo layer mix if configured."""
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

        The vectors are zero at padding; the ELMo layers are (layers, batch, time, elmo_dim).
        """
        x = locked_dropout(x, self.config.input_dropout, self.training)
        if self.lstm is not None:
            x = run_lstm(self.lstm, x, layout)
            x = locked_dropout(x, self.config.dropout, self.training)
            for layer in self.upper:
                x = layer(x, layout)
                x = locked_dropout(x, self.config.dropout, self.training)
        if self.mix is not None:
            assert layers is not None
            x = torch.cat([x, self.mix(layers)], dim=-1)
        return x


class HighwayLSTM(nn.Module):
    """BiLSTM layer with a highway connection: a learned gate mixes the input with the output."""

    def __init__(self, dim: int) -> None:
        """Initialize the layer; the input and the output have the same dimension."""
        super().__init__()
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x: Tensor, layout: PackedBatch) -> Tensor:
        """Map (batch, time, dim) to (batch, time, dim)."""
        return torch.lerp(x, run_lstm(self.lstm, x, layout), self.gate(x).sigmoid())


def run_lstm(lstm: nn.LSTM, x: Tensor, layout: PackedBatch) -> Tensor:
    """Run an LSTM on a padded batch; the output is zero at padding."""
    return layout.unpack(lstm(layout.pack(x))[0])


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Apply dropout to a (batch, time, dim) tensor with the same mask for all words of a text."""
    if not training or not p:
        return x
    return x * functional.dropout(torch.ones_like(x[:, :1]), p)
