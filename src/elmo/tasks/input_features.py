"""What a model of a task knows of each word: ELMo's mix, a static vector, its letters.

On the host words become numbers (`TokenFields`), on the device numbers become vectors
(`TokenInput`). Each of the three can be left out; without ELMo the same model is the baseline.
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
from elmo.kernels.device import to_device
from elmo.model.layer_mix import LayerMix
from elmo.model.network import ELMoNetwork
from elmo.model.token_encoder import CharacterCNN
from elmo.tasks.char_ngrams import NgramBags
from elmo.tasks.frozen_layers import LayerSource, Words
from elmo.tasks.packed_batch import PackedBatch
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT, ByteCharacters
from elmo.text.token_batches import TokenMapper


@dataclass(frozen=True)
class TokenBatch:
    """Words of a batch, as numbers; None for what the model does not read.

    Attributes:
        layout: where they stand.
        layers: of a frozen ELMo, (layers, batch, time, dim).
        rows: token rows of a tuned ELMo, marks first, (distinct, columns).
        places: which of them stands where, marks included, (batch, time + 2).
        static: numbers of static vectors, 0 being unknown, (batch, time).
        letters: letters of the distinct words, (distinct, letters).
        spelled: which of them stands where, (batch, time).
        marks: what a kind of task says of each word, (batch, time).
        char_ngrams: n-grams of each text.
    """

    layout: PackedBatch
    layers: Tensor | None = None
    rows: Tensor | None = None
    places: Tensor | None = None
    static: Tensor | None = None
    letters: Tensor | None = None
    spelled: Tensor | None = None
    marks: Tensor | None = None
    char_ngrams: NgramBags | None = None

    @property
    def mask(self) -> Tensor:
        """True at words, (batch, time)."""
        return self.layout.mask

    def to(self, device: torch.device) -> "TokenBatch":
        """Move everything."""
        moved: dict[str, Any] = {
            item.name: to_device(value, device) if isinstance(value, Tensor) else value.to(device)
            for item in fields(self)
            if (value := getattr(self, item.name)) is not None
        }
        return TokenBatch(**moved)


class TokenFields:
    """Words to numbers."""

    def __init__(
        self,
        *,
        layers: LayerSource | None = None,
        mapper: TokenMapper | None = None,
        static: Mapping[str, int] | None = None,
        has_characters: bool = False,
        max_ngram: int = 0,
        ngram_buckets: int = 1,
    ) -> None:
        """Say what is read.

        Args:
            layers: of a frozen ELMo.
            mapper: of a tuned ELMo.
            static: row of each word that has a static vector, from 1 on.
            has_characters: whether letters are.
            max_ngram: characters of n-grams of whole texts at most; 0 for none.
            ngram_buckets: of the table that n-grams are hashed into.
        """
        self.layers = layers
        self.mapper = mapper
        self.static = static
        self.letters = TokenMapper(ByteCharacters(MAX_WORD_CHARACTERS)) if has_characters else None
        self.max_ngram = max_ngram
        self.ngram_buckets = ngram_buckets

    def batch(
        self,
        texts: Sequence[Words],
        marks: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> TokenBatch:
        """Make a batch of texts, padded on the right.

        Args:
            texts: their words.
            marks: a number for each word, where the kind of task has marks.
            numbers: of the texts, where they are some of those of an example.
        """
        layout = PackedBatch.of([len(text) for text in texts], numbers)
        n_steps = layout.mask.shape[1]
        found: dict[str, Tensor] = {}
        if self.layers is not None:
            vectors = self.layers(texts)
            padded = np.zeros((len(texts), n_steps, *vectors[0].shape[1:]), dtype=np.float16)
            for row, one in zip(padded, vectors, strict=True):
                row[: len(one)] = one
            found["layers"] = torch.from_numpy(padded).permute(2, 0, 1, 3)
        if self.mapper is not None:
            tokens = self.mapper.distinct(texts)
            found["rows"] = torch.from_numpy(self.mapper.rows_with_boundaries(tokens.words))
            found["places"] = torch.from_numpy(tokens.index)
        if self.static is not None:
            found["static"] = self._static(texts, n_steps)
        if self.letters is not None:
            tokens = self.letters.distinct(texts)
            found["letters"] = torch.from_numpy(self.letters.rows_with_boundaries(tokens.words))
            found["spelled"] = torch.from_numpy(tokens.index[:, 1:-1].copy())
        if marks is not None:
            rows = [torch.tensor(row) for row in marks]
            found["marks"] = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        char_ngrams = None
        if self.max_ngram:
            char_ngrams = NgramBags.of(texts, self.max_ngram, self.ngram_buckets)
        return TokenBatch(layout, char_ngrams=char_ngrams, **found)

    def _static(self, texts: Sequence[Words], n_steps: int) -> Tensor:
        assert self.static is not None
        numbers = np.zeros((len(texts), n_steps), dtype=np.int64)
        for row, text in zip(numbers, texts, strict=True):
            # GloVe's and word2vec's words are often in small letters alone.
            row[: len(text)] = [
                self.static.get(word) or self.static.get(word.lower(), 0) for word in text
            ]
        return torch.from_numpy(numbers)


class ELMoMix(nn.Module):
    """Mixed layers with dropout; of one layer the mix is a scale alone."""

    def __init__(self, config: TaskELMoConfig, n_layers: int) -> None:
        """Make a mix.

        Args:
            config: its dials.
            n_layers: layers that come in.
        """
        super().__init__()
        self.mix = LayerMix(n_layers=n_layers)
        self.mix.gamma.requires_grad_(config.gamma)
        self.dropout = config.elmo_dropout

    def forward(self, layers: Tensor) -> Tensor:
        """Map (layers, batch, time, dim) to (batch, time, dim)."""
        return functional.dropout(self.mix(layers), self.dropout, self.training)


class TokenInput(nn.Module):
    """Numbers to the vectors a body reads, and to ELMo's layers for whoever mixes them."""

    def __init__(
        self,
        *,
        elmo: TaskELMoConfig,
        words: WordFeaturesConfig,
        n_layers: int = 0,
        elmo_dim: int = 0,
        network: ELMoNetwork | None = None,
        chosen: Sequence[int] = (),
        static: Tensor | None = None,
        others: Tensor | None = None,
        n_marks: int = 0,
    ) -> None:
        """Make it.

        Args:
            elmo: dials of ELMo.
            words: dials of everything else.
            n_layers: layers of ELMo that come in; 0 for no ELMo.
            elmo_dim: their width.
            network: an ELMo that is tuned.
            chosen: which of its layers.
            static: vectors of words, (words + 1, dim), row 0 for unknown ones.
            others: vectors of further words, (others, dim), whose rows are counted on from there;
                they never learn.
            n_marks: marks a word may have; 0 for none at all.
        """
        super().__init__()
        self.network = network
        self.chosen = list(chosen)
        self.mix: ELMoMix | None = None
        self.dim = 0
        if n_layers and elmo.placement in ("input", "both"):
            self.mix = ELMoMix(elmo, n_layers)
            self.dim += elmo_dim
        self.static: nn.Embedding | None = None
        self.others: Tensor | None
        # No part of a checkpoint: steps do not change it.
        self.register_buffer("others", others, persistent=False)
        if static is not None:
            n_words, width = static.shape
            self.static = nn.Embedding(n_words, width, padding_idx=0)
            self.static.weight.data.copy_(static)
            self.static.weight.requires_grad_(words.tune_word_vectors)
            self.dim += width
        self.letters: CharacterCNN | None = None
        if words.characters == "bytes":
            self.letters = CharacterCNN(
                n_characters=N_BYTE_CHARACTERS + SHIFT,
                character_dim=words.character_dim,
                filters=words.character_filters,
                activation="relu",
                n_highway=0,
            )
            nn.init.uniform_(self.letters.embedding.weight, -0.5, 0.5)
            self.dim += sum(count for _, count in words.character_filters)
        self.marks: nn.Embedding | None = None
        if n_marks:
            self.marks = nn.Embedding(n_marks, words.indicator_dim)
            self.dim += words.indicator_dim

    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor | None]:
        """Give (batch, time, dim), and the layers of ELMo, (layers, batch, time, dim)."""
        layers = self._layers(batch)
        parts: list[Tensor] = []
        if self.mix is not None:
            assert layers is not None
            parts.append(self.mix(layers))
        if self.static is not None:
            assert batch.static is not None
            parts.append(self._static(self.static, batch.static))
        if self.letters is not None:
            assert batch.letters is not None
            assert batch.spelled is not None
            parts.append(functional.embedding(batch.spelled, self.letters(batch.letters)))
        if self.marks is not None:
            assert batch.marks is not None
            parts.append(self.marks(batch.marks))
        found = torch.cat([part.float() for part in parts], dim=-1)
        return found.masked_fill(~batch.mask.unsqueeze(2), 0.0), layers

    def _static(self, table: nn.Embedding, rows: Tensor) -> Tensor:
        if self.others is None:
            learned: Tensor = table(rows)
            return learned
        is_learned = rows < table.num_embeddings
        others = functional.embedding((rows - table.num_embeddings).clamp(min=0), self.others)
        found: Tensor = table(rows.where(is_learned, 0))
        return found.where(is_learned.unsqueeze(2), others.float())

    def _layers(self, batch: TokenBatch) -> Tensor | None:
        if self.network is None:
            return None if batch.layers is None else batch.layers.float()
        assert batch.rows is not None
        assert batch.places is not None
        steps = torch.arange(batch.places.shape[1], device=batch.mask.device)
        mask = steps < batch.mask.sum(dim=1, keepdim=True) + 2
        chosen: Tensor = self.network(batch.rows, batch.places, mask).layers[self.chosen]
        return chosen
