"""The model's own layers between input and head: a BiLSTM with locked dropout."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.config import BodyConfig, TaskELMoConfig
from elmo.tasks.tokens import ELMoMix


class Body(nn.Module):
    """Vectors of words to vectors of words in their text; ELMo may stand beside them again."""

    def __init__(
        self,
        *,
        config: BodyConfig,
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
        self.dim = input_dim
        if config.hidden:
            self.lstm = nn.LSTM(
                input_dim,
                config.hidden,
                config.depth,
                batch_first=True,
                bidirectional=True,
                dropout=config.dropout if config.depth > 1 else 0.0,
            )
            self.dim = 2 * config.hidden
        self.mix: ELMoMix | None = None
        if n_layers and elmo.place in ("output", "both"):
            self.mix = ELMoMix(elmo, n_layers)
            self.dim += elmo_dim

    def forward(self, x: Tensor, mask: Tensor, layers: Tensor | None) -> Tensor:
        """Map (batch, time, input_dim) to (batch, time, dim).

        Args:
            x: vectors, zero at padding.
            mask: true at words, (batch, time).
            layers: of ELMo, (layers, batch, time, elmo_dim).
        """
        x = locked_dropout(x, self.config.input_dropout, self.training)
        if self.lstm is not None:
            lengths = mask.sum(dim=1).cpu()
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1]
            )
            x = locked_dropout(x, self.config.dropout, self.training)
        if self.mix is not None:
            assert layers is not None
            x = torch.cat([x, self.mix(layers)], dim=-1)
        return x


def locked_dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Leave out the same features at all words of a text, (batch, time, dim)."""
    if not training or not share:
        return x
    return x * functional.dropout(torch.ones_like(x[:, :1]), share)
