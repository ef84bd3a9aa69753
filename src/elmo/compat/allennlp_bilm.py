"""The biLM behind the AllenNLP classes: adds boundary tokens and carries state between calls.

The parameters use AllenNLP's names and sign conventions. For each call they are
mapped to the weights of `elmo.model.bilm.BiLM`, which does the computation.
"""

from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.compat.allennlp_files import LoadedBiLM, load_bilm
from elmo.config import ModelConfig
from elmo.errors import InputError
from elmo.inference.engine_slot import EngineSlot
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.model.bilm import BiLM, BiLMOutput, distinct_rows
from elmo.model.lstm import LSTMState
from elmo.model.replaced_weights import with_weights
from elmo.model.token_encoder import Highway
from elmo.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    END_SENTENCE,
    END_TOKEN,
    ByteCharacters,
)

# AllenNLP always uses 50 characters per word and reads the words <S> and </S> as boundary tokens.
CHARACTERS = ByteCharacters(50, {BEGIN_TOKEN: BEGIN_SENTENCE, END_TOKEN: END_SENTENCE})


class StateTable(nn.Module):
    """States that AllenNLP carries from call to call, one for each batch row.

    The module has the name of AllenNLP's LSTM module, so the LSTM parameters are registered in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table: LSTMState | None = None
        self.stateful = True

    def reset_states(self) -> None:
        """Drop all states."""
        self.table = None

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """States h and c in AllenNLP's shape (layers, rows, dim), both directions concatenated."""
        if self.table is None:
            return None
        h, c = (torch.cat(list(value.unbind(1)), dim=2) for value in (self.table.h, self.table.c))
        return h, c

    def get(self, batch: int) -> LSTMState | None:
        """Return the state of the first `batch` rows; None if there is none."""
        return None if self.table is None or not self.stateful else self.table.rows(batch)

    def update(self, state: LSTMState) -> None:
        """Store the state of the first rows; further rows keep theirs."""
        if not self.stateful:
            return
        state = state.detach()
        self.table = state if self.table is None else self.table.updated(state)


class AllenNLPHighway(Highway):
    """Highway layer whose gate scales the input and not the transformed value."""

    def forward(self, x: Tensor, *, kernels: Kernels = AUTO_KERNELS) -> Tensor:
        """Map (..., dim) to (..., dim)."""
        transform, gate = self.linear(x).chunk(2, dim=-1)
        return torch.lerp(transform.relu().to(x.dtype), x, gate.sigmoid().to(x.dtype))


class WeightlessBiLM:
    """A `BiLM` without weights, which are given for each call."""

    def __init__(self, config: ModelConfig) -> None:
        self.engines = EngineSlot()
        with torch.device("meta"):
            self._bilm = BiLM(config=config)
            characters = self._bilm.encoder.characters
            assert characters is not None
            for number in range(config.encoder.n_highway):
                characters.highway[number] = AllenNLPHighway(dim=config.encoder.n_filters)

    def with_weights(self, weights: dict[str, Tensor]) -> tuple[BiLM, Kernels]:
        """Return a biLM with the given weights, by name in `BiLM`, and kernels for one call."""
        return with_weights(self._bilm, weights), self.engines.kernels(weights.items())


class BiLMLayers(TypedDict):
    """Output of `ElmoBiLM`."""

    activations: list[Tensor]
    mask: Tensor


class TokenEmbedder(nn.Module):
    """Character encoder that adds boundary tokens; the parameters have AllenNLP's names."""

    def __init__(self, loaded: LoadedBiLM, requires_grad: bool) -> None:
        super().__init__()
        loaded = loaded.part("_token_embedder.")
        self._bilm = WeightlessBiLM(loaded.config)
        self._names = loaded.names
        for name, array in loaded.arrays.items():
            value = nn.Parameter(torch.from_numpy(array), requires_grad=requires_grad)
            _register_parameter(self, name, value)
        self.output_dim = loaded.config.lstm.projection_dim
        boundaries = torch.from_numpy(CHARACTERS.boundaries())
        self.register_buffer("_boundaries", boundaries, persistent=False)

    def get_output_dim(self) -> int:
        """Return the width of a token vector."""
        return self.output_dim

    def refresh(self) -> None:
        """Make the next call use the current weights; see `ELMo.refresh`."""
        self._bilm.engines.drop()

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Compute the context-independent token vectors of character ids, (batch, time, 50).

        Returns `token_embedding`, (batch, time + 2, dim), and `mask`, (batch, time + 2).
        """
        rows, index, mask = self.distinct_rows(inputs)
        return {"mask": mask, "token_embedding": functional.embedding(index, self.encode(rows))}

    def distinct_rows(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add boundary tokens to character ids, (batch, time, 50).

        Returns distinct rows of ids, and the row index and the mask of each position, both (batch,
        time + 2).
        """
        _check_ids(inputs)
        begin, end = self.boundary_rows()
        ids = add_boundaries(inputs, (inputs > 0).any(dim=2), begin, end)
        rows, index = distinct_rows(ids)
        return rows, index, (ids > 0).any(dim=2)

    def encode(self, rows: Tensor) -> Tensor:
        """Return the vectors of rows of character ids, (rows, dim)."""
        bilm, kernels = self._bilm.with_weights(_weights(self, self._names))
        vectors: Tensor = bilm.encoder(rows, kernels=kernels)
        return vectors

    def boundary_rows(self) -> Tensor:
        """Return the character ids of both boundary tokens, (2, 50)."""
        boundaries = self._boundaries
        assert isinstance(boundaries, Tensor)
        return boundaries


class ElmoCharacterEncoder(TokenEmbedder):
    """AllenNLP's `_ElmoCharacterEncoder`: context-independent token vectors."""

    def __init__(
        self, options_file: str | Path | None, weight_file: str | Path, requires_grad: bool = False
    ) -> None:
        """Load the character encoder; the arguments are those of `ElmoBiLM`."""
        super().__init__(load_bilm(options_file, weight_file), requires_grad)


class ElmoBiLM(nn.Module):
    """AllenNLP's `_ElmoBiLm`: adds boundary tokens and carries state between calls."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
    ) -> None:
        """Load the biLM; the arguments are those of `Elmo`."""
        super().__init__()
        loaded = load_bilm(options_file, weight_file)
        self._bilm = WeightlessBiLM(loaded.config)
        self._names = loaded.names
        self._token_embedder = TokenEmbedder(loaded, requires_grad)
        self._elmo_lstm = StateTable()
        for name, array in loaded.part("_elmo_lstm.").arrays.items():
            value = nn.Parameter(torch.from_numpy(array), requires_grad=requires_grad)
            _register_parameter(self._elmo_lstm, name, value)
        self.num_layers = loaded.config.n_layers
        self._dim = loaded.config.dim
        self.register_load_state_dict_pre_hook(_without_cache)  # type: ignore[no-untyped-call]
        self._cached: Tensor | None
        self.register_buffer("_cached", None, persistent=False)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """Return the width of a vector with both directions."""
        return self._dim

    def refresh(self) -> None:
        """Make the next call use the current weights; see `ELMo.refresh`."""
        self._bilm.engines.drop()
        self._token_embedder.refresh()

    def create_cached_cnn_embeddings(self, tokens: list[str]) -> None:
        """Compute the token vectors of a vocabulary, padding first, for `word_inputs`."""
        boundaries = self._token_embedder.boundary_rows()
        words = torch.from_numpy(CHARACTERS.ids(tokens)).to(boundaries.device)
        with torch.no_grad():
            table = self._token_embedder.encode(torch.cat([words, boundaries]))
        table[0] = 0.0
        self._cached = table

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> BiLMLayers:
        """Run the biLM, starting from the state of the previous call.

        Args:
            inputs: Character ids without boundary tokens, (batch, time, 50).
            word_inputs: Ids of the cached vocabulary, (batch, time), 0 at padding. Used if all ids
                are in the vocabulary.

        Returns:
            `activations`, a list of (batch, time + 2, dim), and `mask`, (batch, time + 2).

        Raises:
            InputError: `word_inputs` cannot be used and there are no `inputs`.
        """
        cached = self._cached
        if (
            cached is not None
            and word_inputs is not None
            and _all_below(word_inputs, len(cached) - 2)
        ):
            # The rows of the cache are the vocabulary, with padding first, and the boundary tokens.
            begin, end = torch.tensor([[len(cached) - 2], [len(cached) - 1]]).to(word_inputs)
            index = add_boundaries(word_inputs.unsqueeze(2), word_inputs > 0, begin, end)
            index = index.squeeze(2)
            mask = (cached > 0).any(dim=1)[index]
            output = self._run(cached, index, mask)
        elif inputs is None:
            raise InputError(
                "word_inputs has ids outside the cached vocabulary, and inputs is None. Pass the "
                "character ids as inputs."
            )
        else:
            rows, index, mask = self._token_embedder.distinct_rows(inputs)
            output = self._run(self._token_embedder.encode(rows), index, mask)
        return {"activations": list(output.layers), "mask": output.mask}

    def _run(self, table: Tensor, index: Tensor, mask: Tensor) -> BiLMOutput:
        state = self._elmo_lstm.get(index.shape[0])
        lengths = mask.sum(dim=1).tolist()
        bilm, kernels = self._bilm.with_weights(_weights(self, self._names))
        output = bilm.contextualize(table, index, mask, state, lengths, kernels=kernels)
        self._elmo_lstm.update(output.state)
        return output


def _check_ids(ids: Tensor) -> None:
    """Raise `InputError` if ids are not integers of shape (batch, time, 50)."""
    if not isinstance(ids, Tensor):
        raise InputError(
            f"inputs has type {type(ids).__name__}, expected a tensor of batch_to_ids(sentences)."
        )
    n_characters = CHARACTERS.max_characters
    if ids.dim() != 3 or ids.shape[2] != n_characters or ids.is_floating_point():
        raise InputError(
            f"inputs has shape {tuple(ids.shape)} and dtype {ids.dtype}, expected integers of "
            f"shape (batch, words, {n_characters}). Create them with batch_to_ids(sentences)."
        )


def _all_below(ids: Tensor, limit: int) -> bool:
    """Whether all ids are from 0 to limit - 1."""
    return ids.numel() == 0 or (int(ids.min()) >= 0 and int(ids.max()) < limit)


def add_boundaries(ids: Tensor, real: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Add boundary tokens around the real positions of each row, (batch, time + 2, columns)."""
    batch, time, columns = ids.shape
    extended = ids.new_zeros(batch, time + 2, columns)
    extended[:, 1:-1] = ids * real.unsqueeze(2)
    extended[:, 0] = begin
    extended[torch.arange(batch, device=ids.device), real.sum(dim=1) + 1] = end
    return extended


def _weights(module: nn.Module, names: dict[str, str]) -> dict[str, Tensor]:
    """Return the weights by their names in `BiLM`; the values are AllenNLP's names."""
    return {name: module.get_parameter(allennlp_name) for name, allennlp_name in names.items()}


def _register_parameter(module: nn.Module, name: str, value: nn.Parameter) -> None:
    """Register a parameter under a dotted name; missing submodules are created."""
    *path, last = name.split(".")
    for submodule in path:
        if submodule not in module._modules:
            module.add_module(submodule, nn.Module())
        module = module.get_submodule(submodule)
    module.register_parameter(last, value)


def _without_cache(module: nn.Module, state: dict[str, Any], prefix: str, *rest: object) -> None:
    """Remove a cached vocabulary from a state dict, because it is computed from the words."""
    state.pop(f"{prefix}_word_embedding.weight", None)
