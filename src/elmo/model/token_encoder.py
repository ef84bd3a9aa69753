"""Token encoder: character CNN, highway layers, word table and projection (layer 0 of ELMo).

The architecture is that of Kim et al. (2016) as implemented in bilm-tf. Row 0 of every embedding
table is reserved for padding: it is zero and not trained.
"""

import torch
from torch import Tensor, nn

from elmo.config import EncoderConfig
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels

# Number of tokens computed at a time, which bounds the memory of large batches.
CHUNK_ROWS = {"cpu": 4096, "cuda": 2**16}


class Highway(nn.Module):
    """Highway layer `y = g·relu(W_t x) + (1 - g)·x`, `g = σ(W_g x)` (Srivastava et al., 2015).

    One matrix holds the weights of the transform, followed by those of the gate. The gate scales
    the *transformed* value, as in bilm-tf, whose files nevertheless call it "carry".
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor, *, kernels: Kernels = AUTO_KERNELS) -> Tensor:
        """Apply the layer to vectors (tokens, dim)."""
        return kernels.highway(x, self.linear.weight, self.linear.bias)


class CharacterCNN(nn.Module):
    """Character encoder: convolutions, max pooling over positions, highway layers.

    Padding characters are not masked; they have a trained embedding.
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
        """Create the encoder; the filters are pairs of a width and a number of filters.

        `n_characters` includes row 0. The activation after the max pooling is "relu" or "tanh".
        """
        super().__init__()
        self.embedding = _table(n_characters, character_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(character_dim, count, width) for width, count in filters
        )
        self.activation = activation
        n_filters = sum(count for _, count in filters)
        self.highway = nn.ModuleList(Highway(dim=n_filters) for _ in range(n_highway))

    def forward(self, characters: Tensor, *, kernels: Kernels = AUTO_KERNELS) -> Tensor:
        """Map character ids (tokens, characters) to vectors (tokens, filters)."""
        convolutions = [layer for layer in self.convolutions if isinstance(layer, nn.Conv1d)]
        weights = [layer.weight for layer in convolutions]
        biases = [layer.bias for layer in convolutions if layer.bias is not None]
        pooled = kernels.convolve_and_pool(characters, self.embedding.weight, weights, biases)
        x = pooled.relu() if self.activation == "relu" else pooled.tanh()
        for layer in self.highway:
            x = layer(x, kernels=kernels)
        return x


def _table(n_rows: int, dim: int) -> nn.Embedding:
    """Return an uninitialized embedding table in which row 0 is padding."""
    # `nn.Embedding(...)` would draw random weights, which are replaced anyway.
    table: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        torch.empty(n_rows, dim), freeze=False, padding_idx=0
    )
    return table


class TokenEncoder(nn.Module):
    """Maps token rows to token vectors (layer 0), based on characters, words or both.

    A token row consists of character ids, followed by a word id if there is a word table. With the
    word role "join", the character vector is appended to the word vector. With "cache", the word
    vector is used instead of the character encoder if the word id is not 0.
    """

    def __init__(self, *, config: EncoderConfig, output_dim: int) -> None:
        super().__init__()
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

    def forward(self, rows: Tensor, *, kernels: Kernels = AUTO_KERNELS) -> Tensor:
        """Map token rows (tokens, columns) to vectors (tokens, dim)."""
        if not self.cached:
            return self._compute(rows, kernels)
        assert self.words is not None
        vectors: Tensor = self.words(rows[:, -1])
        unknown = (rows[:, -1] == 0).nonzero().squeeze(1)
        if unknown.numel() == 0:
            return vectors
        computed = self._compute(rows[unknown], kernels).to(vectors.dtype)
        return vectors.index_put((unknown,), computed)

    def _compute(self, rows: Tensor, kernels: Kernels) -> Tensor:
        chunk_rows = CHUNK_ROWS.get(rows.device.type, CHUNK_ROWS["cpu"])
        if rows.shape[0] > chunk_rows:
            chunks = torch.split(rows, chunk_rows)
            return torch.cat([self._compute(chunk, kernels) for chunk in chunks])
        parts: list[Tensor] = []
        characters = rows
        if self.words is not None:
            characters = rows[:, :-1]
            if not self.cached:
                parts.append(self.words(rows[:, -1]))
        if self.characters is not None:
            parts.append(self.characters(characters, kernels=kernels))
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        if self.projection is not None:
            weight, bias = self.projection.weight, self.projection.bias
            # Not in reduced precision: all layers depend on it, and the product is too small for
            # a noticeable gain.
            x = kernels.linear(x, weight, bias)
        return x
