"""Input features of words in a task model: ELMo mix, word vector, characters, indicators.

`TokenIndexer` converts words to index tensors on the CPU, and `InputFeatures` converts these to
vectors on the device. Every feature is optional. The same model without ELMo is the baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, WordFeaturesConfig
from elmo.config.tasks import MAX_WORD_CHARACTERS
from elmo.inference.engine_slot import EngineSlot
from elmo.kernels.device import to_device
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.model.layer_mix import LayerMix
from elmo.model.network import ELMoNetwork
from elmo.model.token_encoder import CharacterCNN
from elmo.tasks.core.char_ngrams import CharNgrams, NgramBags
from elmo.tasks.core.example import Words
from elmo.tasks.core.frozen_layers import LayerSource
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT, ByteCharacters
from elmo.text.token_batches import TokenMapper


@dataclass(frozen=True)
class TokenBatch:
    """A batch of texts as tensors. Features that the model does not use are None.

    Attributes:
        layout: Positions of the words.
        layers: Layers of a frozen ELMo, (layers, batch, time, dim).
        token_rows: Input ids of the distinct tokens for a fine-tuned ELMo, (distinct, columns);
            boundary tokens come first.
        token_index: Row of each token in `token_rows`, including boundary tokens,
            (batch, time + 2).
        word_vector_rows: Row of each word in the word vector table, (batch, time); 0 if the word
            has no vector.
        characters: Character ids of the distinct words, (distinct, characters).
        character_index: Row of each word in `characters`, (batch, time).
        indicators: Indicator feature of each word, defined by the task, (batch, time).
        char_ngrams: Character n-grams of each text.
    """

    layout: PackedBatch
    layers: Tensor | None = None
    token_rows: Tensor | None = None
    token_index: Tensor | None = None
    word_vector_rows: Tensor | None = None
    characters: Tensor | None = None
    character_index: Tensor | None = None
    indicators: Tensor | None = None
    char_ngrams: NgramBags | None = None

    @property
    def mask(self) -> Tensor:
        """True at words, False at padding, (batch, time)."""
        return self.layout.mask

    def to(self, device: torch.device) -> "TokenBatch":
        """Return a copy on the given device."""
        moved: dict[str, Any] = {
            item.name: to_device(value, device) if isinstance(value, Tensor) else value.to(device)
            for item in fields(self)
            if (value := getattr(self, item.name)) is not None
        }
        return TokenBatch(**moved)


class TokenIndexer:
    """Converts words to the index tensors of a `TokenBatch`."""

    def __init__(
        self,
        *,
        layers: LayerSource | None = None,
        mapper: TokenMapper | None = None,
        word_vector_rows: Mapping[str, int] | None = None,
        has_characters: bool = False,
        ngrams: CharNgrams | None = None,
    ) -> None:
        """Select the features: layers of a frozen ELMo or ids for a fine-tuned one, and others.

        `word_vector_rows` are the rows of words in the word vector table, starting at 1.
        """
        self.layers = layers
        self.mapper = mapper
        self.word_vector_rows = word_vector_rows
        self.character_mapper = (
            TokenMapper(ByteCharacters(MAX_WORD_CHARACTERS)) if has_characters else None
        )
        self.ngrams = ngrams

    def batch(
        self,
        texts: Sequence[Words],
        indicators: Sequence[Sequence[int]] | None = None,
        text_indices: Sequence[int] | None = None,
    ) -> TokenBatch:
        """Convert texts to a batch that is padded on the right.

        `indicators` are a feature of each word, if the task has one. `text_indices` are the indices
        of the texts in their document, if the batch contains only some of its sentences.
        """
        layout = PackedBatch.from_lengths([len(text) for text in texts], text_indices)
        n_steps = layout.mask.shape[1]
        tensors: dict[str, Tensor] = {}
        if self.layers is not None:
            vectors = self.layers(texts)
            padded = np.zeros((len(texts), n_steps, *vectors[0].shape[1:]), dtype=np.float16)
            for row, values in zip(padded, vectors, strict=True):
                row[: len(values)] = values
            tensors["layers"] = torch.from_numpy(padded).permute(2, 0, 1, 3)
        if self.mapper is not None:
            tokens = self.mapper.distinct(texts)
            tensors["token_rows"] = torch.from_numpy(self.mapper.rows_with_boundaries(tokens.words))
            tensors["token_index"] = torch.from_numpy(tokens.index)
        if self.word_vector_rows is not None:
            tensors["word_vector_rows"] = self._word_vector_rows(texts, n_steps)
        if self.character_mapper is not None:
            tokens = self.character_mapper.distinct(texts)
            rows_of_characters = self.character_mapper.rows_with_boundaries(tokens.words)
            tensors["characters"] = torch.from_numpy(rows_of_characters)
            tensors["character_index"] = torch.from_numpy(tokens.index[:, 1:-1].copy())
        if indicators is not None:
            rows = [torch.tensor(row) for row in indicators]
            tensors["indicators"] = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        char_ngrams = None
        if self.ngrams is not None:
            char_ngrams = NgramBags.from_texts(texts, *self.ngrams)
        return TokenBatch(layout, char_ngrams=char_ngrams, **tensors)

    def _word_vector_rows(self, texts: Sequence[Words], n_steps: int) -> Tensor:
        assert self.word_vector_rows is not None
        rows = np.zeros((len(texts), n_steps), dtype=np.int64)
        for row, text in zip(rows, texts, strict=True):
            # The vocabularies of GloVe and word2vec are often lowercased.
            row[: len(text)] = [
                self.word_vector_rows.get(word) or self.word_vector_rows.get(word.lower(), 0)
                for word in text
            ]
        return torch.from_numpy(rows)


class ELMoMix(nn.Module):
    """Weighted mean of ELMo layers with dropout; a single layer is only scaled."""

    def __init__(self, config: TaskELMoConfig, n_layers: int) -> None:
        super().__init__()
        self.mix = LayerMix(n_layers=n_layers)
        self.mix.gamma.requires_grad_(config.gamma)
        self.dropout = config.elmo_dropout

    def forward(self, layers: Tensor) -> Tensor:
        """Map (layers, batch, time, dim) to (batch, time, dim)."""
        return functional.dropout(self.mix(layers), self.dropout, self.training)


class InputFeatures(nn.Module):
    """Computes the input vectors of the task encoder, and the ELMo layers for the output mix."""

    def __init__(
        self,
        *,
        elmo: TaskELMoConfig,
        words: WordFeaturesConfig,
        n_layers: int = 0,
        elmo_dim: int = 0,
        network: ELMoNetwork | None = None,
        chosen: Sequence[int] = (),
        word_vectors: Tensor | None = None,
        frozen_word_vectors: Tensor | None = None,
        n_indicators: int = 0,
        kernels: Kernels = AUTO_KERNELS,
    ) -> None:
        """Initialize the features that are configured or given.

        The network is given if ELMo is fine-tuned, with the indices of its `chosen` layers;
        `n_layers` is 0 without ELMo. Row 0 of the word vectors, (words + 1, dim), is for unknown
        words. The row numbers of frozen word vectors, (others, dim), which are never trained,
        continue after theirs. The indicator feature has `n_indicators` values, 0 disables it.
        """
        super().__init__()
        self.network = network
        self.network_engines, self.character_engines = EngineSlot(kernels), EngineSlot()
        self.chosen = list(chosen)
        self.mix: ELMoMix | None = None
        self.dim = 0
        if n_layers and elmo.placement in ("input", "both"):
            self.mix = ELMoMix(elmo, n_layers)
            self.dim += elmo_dim
        self.word_vectors: nn.Embedding | None = None
        self.frozen_word_vectors: Tensor | None
        # Not persistent: training does not change these vectors, so checkpoints do not need them.
        self.register_buffer("frozen_word_vectors", frozen_word_vectors, persistent=False)
        if word_vectors is not None:
            n_words, width = word_vectors.shape
            self.word_vectors = nn.Embedding(n_words, width, padding_idx=0)
            self.word_vectors.weight.data.copy_(word_vectors)
            self.word_vectors.weight.requires_grad_(words.tune_word_vectors)
            self.dim += width
        self.characters: CharacterCNN | None = None
        if words.characters == "bytes":
            self.characters = CharacterCNN(
                n_characters=N_BYTE_CHARACTERS + SHIFT,
                character_dim=words.character_dim,
                filters=words.character_filters,
                activation="relu",
                n_highway=0,
            )
            nn.init.uniform_(self.characters.embedding.weight, -0.5, 0.5)
            self.dim += sum(count for _, count in words.character_filters)
        self.indicators: nn.Embedding | None = None
        if n_indicators:
            self.indicators = nn.Embedding(n_indicators, words.indicator_dim)
            self.dim += words.indicator_dim

    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor | None]:
        """Return input vectors, (batch, time, dim), and ELMo layers, (layers, batch, time, dim)."""
        layers = self._layers(batch)
        parts: list[Tensor] = []
        if self.mix is not None:
            assert layers is not None
            parts.append(self.mix(layers))
        if self.word_vectors is not None:
            assert batch.word_vector_rows is not None
            parts.append(self._look_up(self.word_vectors, batch.word_vector_rows))
        if self.characters is not None:
            assert batch.characters is not None
            assert batch.character_index is not None
            kernels = self.character_engines.kernels(self.characters.named_parameters())
            vectors = self.characters(batch.characters, kernels=kernels)
            parts.append(functional.embedding(batch.character_index, vectors))
        if self.indicators is not None:
            assert batch.indicators is not None
            parts.append(self.indicators(batch.indicators))
        vectors = torch.cat([part.float() for part in parts], dim=-1)
        return vectors.masked_fill(~batch.mask.unsqueeze(2), 0.0), layers

    def _look_up(self, table: nn.Embedding, rows: Tensor) -> Tensor:
        """Look up the word vectors of the given rows, (batch, time, dim)."""
        if self.frozen_word_vectors is None:
            trained: Tensor = table(rows)
            return trained
        is_trained = rows < table.num_embeddings
        frozen_rows = (rows - table.num_embeddings).clamp(min=0)
        frozen = functional.embedding(frozen_rows, self.frozen_word_vectors)
        vectors: Tensor = table(rows.where(is_trained, 0))
        return vectors.where(is_trained.unsqueeze(2), frozen.float())

    def _layers(self, batch: TokenBatch) -> Tensor | None:
        if self.network is None:
            return None if batch.layers is None else batch.layers.float()
        assert batch.token_rows is not None
        assert batch.token_index is not None
        steps = torch.arange(batch.token_index.shape[1], device=batch.mask.device)
        mask = steps < batch.mask.sum(dim=1, keepdim=True) + 2
        kernels = self.network_engines.kernels(self.network.bilm.named_parameters())
        output = self.network(batch.token_rows, batch.token_index, mask, kernels=kernels)
        chosen: Tensor = output.layers[self.chosen]
        return chosen
