"""Recurrent language model: input vectors, recurrent layers, softmax."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import EncoderConfig
from elmo.config.language_models import RecurrentDropoutConfig, RecurrentModelConfig
from elmo.kernels.recurrent_kernels import run_recurrent
from elmo.lab.recurrent_layer import RecurrentLayer, RecurrentState
from elmo.lab.symbols import Symbols
from elmo.model.initialization import (
    bias_from_counts,
    initialize_encoder,
    initialize_softmax,
    log_frequencies,
)
from elmo.model.losses import Softmax, exact_losses, full_losses
from elmo.model.token_encoder import TokenEncoder
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT, ByteCharacters

NO_DROPOUT = RecurrentDropoutConfig()

# Number of words whose vectors are centered before training: the most frequent ones.
CENTERED_WORDS = 2048


@dataclass(frozen=True)
class NetworkOutput:
    """Output of a network for a segment.

    Attributes:
        hidden: Vectors that predict the next symbols, after dropout, (time, batch, dim).
        last: Output of the last layer before dropout, (time, batch, dim).
        state: State after the last step.
        gates: Gates and cells of each layer by name, each (time, batch, hidden_dim); empty unless
            they were recorded.
        outputs: Output of each layer before dropout, (time, batch, output_dim).
    """

    hidden: Tensor
    last: Tensor
    state: RecurrentState
    gates: tuple[dict[str, Tensor], ...]
    outputs: tuple[Tensor, ...]


class RecurrentNetwork(nn.Module):
    """A recurrent language model over symbol ids.

    The input vectors of symbols are a table (`input_vectors`), from which `forward` takes the rows
    of its input. The table is either a weight or the output of a CNN over the characters of words;
    for a segment it can be limited to the words of the segment. After the symbols it can contain
    other words (`vectors_with`), which are only read.
    """

    characters: Tensor | None

    def __init__(
        self,
        *,
        config: RecurrentModelConfig,
        regularization: RecurrentDropoutConfig = NO_DROPOUT,
        kernel: str = "auto",
    ) -> None:
        """Create a network with uninitialized weights."""
        super().__init__()
        self.config, self.regularization, self.kernel = config, regularization, kernel
        shape = config.network
        self.embedding: nn.Parameter | None = None
        self.encoder: TokenEncoder | None = None
        self.register_buffer("characters", None)
        if shape.word_input == "characters":
            self.encoder = TokenEncoder(config=_encoder_config(config), output_dim=shape.input_dim)
            rows = torch.zeros(config.n_symbols, config.max_characters, dtype=torch.long)
            self.characters = rows
        else:
            self.embedding = nn.Parameter(torch.empty(config.n_symbols, shape.input_dim))
        self.layers = nn.ModuleList()
        input_dim = shape.input_dim
        for hidden_dim, output_dim in shape.layer_dims:
            self.layers.append(
                RecurrentLayer(
                    config=shape, input_dim=input_dim, hidden_dim=hidden_dim, output_dim=output_dim
                )
            )
            input_dim = output_dim
        self.bias: nn.Parameter | None = None
        self.softmax: Softmax | None = None
        if shape.tied:
            self.bias = nn.Parameter(torch.zeros(config.n_symbols))
        elif config.softmax_cutoffs:
            self.softmax = nn.AdaptiveLogSoftmaxWithLoss(
                shape.softmax_dim, config.n_symbols, list(config.softmax_cutoffs)
            )
        else:
            self.softmax = nn.Linear(shape.softmax_dim, config.n_symbols)

    def initialize(self, seed: int) -> None:
        """Draw all weights from a seed."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            if self.embedding is not None:
                bound = self._initial_bound()
                self.embedding.uniform_(-bound, bound, generator=generator)
        if self.encoder is not None:
            initialize_encoder(self.encoder, generator)
        for layer in self.recurrent_layers():
            layer.initialize(generator)
        if self.softmax is not None:
            initialize_softmax(self.softmax, generator)

    def _initial_bound(self) -> float:
        # Tied vectors are softmax weights too, and must start with small logits. A CNN needs larger
        # ones than a table, because its vectors cannot move one by one.
        if not self.config.network.tied:
            return 1.0
        return 0.1 if self.encoder is None else 0.5

    def center_vectors(self) -> None:
        """Change the projection of the CNN so that the input vectors are distributed as in a table.

        Because of the max pooling, the initial vectors of all words are nearly the same (cosine
        0.94). A tied softmax over such vectors does not learn.
        """
        if self.encoder is None or self.encoder.projection is None:
            return
        with torch.no_grad():
            words = torch.arange(min(CENTERED_WORDS, self.config.n_symbols))
            vectors = self.input_vectors(words)
            mean = vectors.mean(0)
            deviation = self._initial_bound() / math.sqrt(3.0)  # of a uniform distribution
            scale = deviation / (vectors - mean).pow(2).mean().sqrt()
            self.encoder.projection.weight.mul_(scale)
            self.encoder.projection.bias.sub_(mean).mul_(scale)

    def set_symbols(self, symbols: Symbols) -> None:
        """Set the characters of the words, for a network with input from characters."""
        if self.characters is not None:
            self.characters.copy_(self.spell(symbols.names))

    def spell(self, words: Sequence[str]) -> Tensor:
        """Return the characters of words, the input of the CNN."""
        assert self.characters is not None
        rows = ByteCharacters(self.config.max_characters).ids(words)
        return torch.from_numpy(rows).to(self.characters.device)

    def set_bias(self, counts: Tensor) -> None:
        """Set the bias of the softmax to the log relative frequency of each symbol."""
        if self.softmax is not None:
            bias_from_counts(self.softmax, counts)
        elif self.bias is not None:
            with torch.no_grad():
                self.bias.copy_(log_frequencies(counts))

    def recurrent_layers(self) -> list[RecurrentLayer]:
        """Return the recurrent layers, lowest first."""
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def zero_state(self, batch: int, device: torch.device | None = None) -> RecurrentState:
        """Return a state of zeros."""
        layers = self.recurrent_layers()
        device = layers[0].weight_hh.device if device is None else device
        has_cell = self.config.network.cell in ("lstm", "lstmp")
        return RecurrentState(
            tuple(torch.zeros(batch, layer.output_dim, device=device) for layer in layers),
            tuple(torch.zeros(batch, layer.hidden_dim, device=device) for layer in layers)
            if has_cell
            else (),
        )

    def input_vectors(self, words: Tensor | None = None) -> Tensor:
        """Return the input vectors of all symbols, or of the given ones, (symbols, dim)."""
        if self.encoder is not None:
            assert self.characters is not None
            rows = self.characters if words is None else self.characters[words]
            vectors: Tensor = self.encoder(rows)
            return vectors
        assert self.embedding is not None
        return self.embedding if words is None else self.embedding[words]

    def vectors_with(self, new_words: Sequence[str]) -> Tensor:
        """Return the input vectors of all symbols, followed by those of other words.

        Without input from characters, other words have the vector of `<UNK>`.
        """
        vectors = self.input_vectors()
        return torch.cat([vectors, self.new_vectors(new_words)]) if new_words else vectors

    def new_vectors(self, new_words: Sequence[str]) -> Tensor:
        """Return the input vectors of words that are not symbols, (words, dim)."""
        if self.encoder is None:
            assert self.embedding is not None
            return self.embedding[:1].expand(len(new_words), -1)
        vectors: Tensor = self.encoder(self.spell(new_words))
        return vectors

    def forward(
        self, vectors: Tensor, index: Tensor, state: RecurrentState, *, record: bool = False
    ) -> NetworkOutput:
        """Run the network over a segment.

        Args:
            vectors: Input vectors, as returned by `input_vectors`.
            index: Row of `vectors` at each position, (time, batch).
            state: Initial state.
            record: Whether to return gates and cells of all steps, which is slow.
        """
        rates = self.regularization
        if rates.embedding_dropout and self.training:
            keep = torch.ones(len(vectors), 1, device=vectors.device)
            vectors = vectors * functional.dropout(keep, rates.embedding_dropout)
        x = functional.embedding(index, vectors)
        gates, outputs, h, c = [], [], [], []
        for number, layer in enumerate(self.recurrent_layers()):
            x = self._dropout(x, rates.input_dropout if number == 0 else None)
            cell = state.c[number] if state.c else None
            call = layer.call(
                x,
                state.h[number],
                cell,
                weight_drop=rates.weight_drop,
                state_dropout=rates.state_dropout,
            )
            result = run_recurrent(call, self.kernel, record)
            x = result.output
            outputs.append(x)
            h.append(result.h)
            if result.c is not None:
                c.append(result.c)
            if result.gates is not None:
                gates.append(result.gates)
        return NetworkOutput(
            hidden=self._dropout(x, rates.output_dropout),
            last=x,
            state=RecurrentState(tuple(h), tuple(c)),
            gates=tuple(gates),
            outputs=tuple(outputs),
        )

    def _dropout(self, x: Tensor, rate: float | None) -> Tensor:
        rates = self.regularization
        rate = rates.dropout if rate is None else rate
        if not rate or not self.training:
            return x
        if not rates.locked:
            return functional.dropout(x, rate)
        return x * functional.dropout(torch.ones_like(x[:1]), rate)

    def losses(self, hidden: Tensor, targets: Tensor, vectors: Tensor | None = None) -> Tensor:
        """Return -ln p of each target, with a softmax over all symbols.

        Args:
            hidden: Hidden vectors, (predictions, dim).
            targets: Symbol ids, (predictions,).
            vectors: Input vectors of all symbols, which other words can follow; only needed by
                tied networks.
        """
        if self.softmax is not None:
            return exact_losses(self.softmax, hidden, targets)
        assert vectors is not None
        assert self.bias is not None
        return full_losses(hidden, vectors[: self.config.n_symbols], self.bias, targets)

    def log_probabilities(self, hidden: Tensor, vectors: Tensor) -> Tensor:
        """Return ln p of all symbols, (predictions, symbols), float32.

        Args:
            hidden: Hidden vectors, (predictions, dim).
            vectors: Input vectors of all symbols, which other words can follow.
        """
        if isinstance(self.softmax, nn.AdaptiveLogSoftmaxWithLoss):
            return self.softmax.log_prob(hidden.float())
        if self.softmax is not None:
            logits = self.softmax(hidden)
        else:
            logits = functional.linear(hidden, vectors[: self.config.n_symbols], self.bias)
        return functional.log_softmax(logits.float(), dim=-1)


def _encoder_config(config: RecurrentModelConfig) -> EncoderConfig:
    shape = config.network
    return EncoderConfig(
        n_characters=N_BYTE_CHARACTERS + SHIFT,
        character_dim=shape.character_dim,
        filters=shape.filters,
        activation="tanh",
        n_highway=shape.n_highway,
    )
