"""Token rows to context-independent vectors: character CNN, highway, word table, projection.

Equations of Kim et al. (2016) as bilm-tf computes them. Row 0 of every table is the mask: zero,
and never trained.
"""

import torch
from torch import Tensor, nn

from elmo.config import EncoderConfig
from elmo.kernels import dispatch

# Tokens that are computed together; bounds the memory of a batch of any size.
CHUNK_ROWS = {"cpu": 4096, "cuda": 2**16}


class Highway(nn.Module):
    """`y = g·relu(W_t x) + (1 - g)·x` with `g = σ(W_g x)` (Srivastava et al., 2015).

    One matrix holds both halves, the transform above the gate; the gate opens for the *transformed*
    value, as in bilm-tf's files, whose name for it is "carry".
    """

    def __init__(self, *, dim: int) -> None:
        """Make a layer.

        Args:
            dim: width of input and output.
        """
        super().__init__()
        self.kernel = "auto"
        """Name of the implementation, as `kernels.choose` knows it."""
        self.linear = nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (tokens, dim) to (tokens, dim)."""
        return dispatch.highway(x, self.linear.weight, self.linear.bias, self.kernel)


class CharacterCNN(nn.Module):
    """Characters of a token to one vector: convolutions, max over positions, highway layers.

    Padding characters take part in everything: they have a trained vector of their own.
    """

    def __init__(
        self,
        *,
        n_characters: int,
        character_dim: int,
        filters: tuple[tuple[int, int], ...],
        activation: str,
        n_highway: int,
    ) -> None:
        """Make the encoder.

        Args:
            n_characters: rows of the character table, the mask row included.
            character_dim: width of a character vector.
            filters: (width, count) of each convolution.
            activation: relu or tanh, after the max.
            n_highway: highway layers on top.
        """
        super().__init__()
        self.kernel = "auto"
        """Name of the implementation, as `kernels.choose` knows it."""
        self.embedding = _table(n_characters, character_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(character_dim, count, width) for width, count in filters
        )
        self.activation = activation
        n_filters = sum(count for _, count in filters)
        self.highway = nn.ModuleList(Highway(dim=n_filters) for _ in range(n_highway))

    def forward(self, characters: Tensor) -> Tensor:
        """Map character ids (tokens, chars) to (tokens, filters)."""
        convolutions = [one for one in self.convolutions if isinstance(one, nn.Conv1d)]
        weights = [one.weight for one in convolutions]
        biases = [one.bias for one in convolutions if one.bias is not None]
        pooled = dispatch.convolve_and_pool(
            characters, self.embedding.weight, weights, biases, self.kernel
        )
        x = pooled.relu() if self.activation == "relu" else pooled.tanh()
        for layer in self.highway:
            x = layer(x)
        return x


def _table(n_rows: int, dim: int) -> nn.Embedding:
    """Make a table whose row 0 is the mask, without drawing weights that are replaced anyway."""
    table: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        torch.empty(n_rows, dim), freeze=False, padding_idx=0
    )
    return table


class TokenEncoder(nn.Module):
    """Rows of ids to layer 0: characters, words, or both, projected to the width of the LSTM.

    A row is its characters followed by a word id where there is a word table. In the role "join"
    the word vector stands in front of the character part; in the role "cache" it replaces the
    whole computation for tokens whose word id is not 0.
    """

    def __init__(self, *, config: EncoderConfig, output_dim: int) -> None:
        """Make the encoder.

        Args:
            config: its dials.
            output_dim: width of a token vector.
        """
        super().__init__()
        self.kernel = "auto"
        """Name of the implementation, as `kernels.choose` knows it."""
        self.characters: CharacterCNN | None = None
        if config.n_characters:
            self.characters = CharacterCNN(
                n_characters=config.n_characters,
                character_dim=config.character_dim,
                filters=config.filters,
                activation=config.activation,
                n_highway=config.n_highway,
            )
        self.words: nn.Embedding | None = None
        if config.n_words:
            self.words = _table(config.n_words, config.word_dim)
        self.projection = nn.Linear(config.width, output_dim) if config.project else None
        self.cached = self.words is not None and config.word_role == "cache"

    def use_kernel(self, name: str) -> None:
        """Compute with an implementation of that name, as `kernels.choose` knows them."""
        for part in self.modules():
            if isinstance(part, TokenEncoder | CharacterCNN | Highway):
                part.kernel = name

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (tokens, columns) to (tokens, dim)."""
        if not self.cached:
            return self._compute(rows)
        assert self.words is not None
        vectors: Tensor = self.words(rows[:, -1])
        unknown = (rows[:, -1] == 0).nonzero().squeeze(1)
        if unknown.numel() == 0:
            return vectors
        computed = self._compute(rows[unknown]).to(vectors.dtype)
        return vectors.index_put((unknown,), computed)

    def _compute(self, rows: Tensor) -> Tensor:
        chunk = CHUNK_ROWS.get(rows.device.type, CHUNK_ROWS["cpu"])
        if rows.shape[0] > chunk:
            return torch.cat([self._compute(part) for part in torch.split(rows, chunk)])
        parts: list[Tensor] = []
        characters = rows
        if self.words is not None:
            characters = rows[:, :-1]
            if not self.cached:
                parts.append(self.words(rows[:, -1]))
        if self.characters is not None:
            parts.append(self.characters(characters))
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        if self.projection is not None:
            weight, bias = self.projection.weight, self.projection.bias
            # All layers stand on it, and it is small: narrow products would save next to nothing.
            x = dispatch.linear(x, weight, bias, self.kernel)
        return x
