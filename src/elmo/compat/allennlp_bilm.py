"""The biLM as AllenNLP runs it: sentence marks put in, state kept from call to call, old names.

The part of `elmo.compat.allennlp` below its public classes. The parameters stand in modules of
AllenNLP's names and with its signs; the arithmetic is ours, and borrows them for each call.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from elmo.config import ModelConfig
from elmo.errors import FormatError, InputError
from elmo.formats.load import read
from elmo.formats.weight_names import allennlp_modules, export_weights
from elmo.model.bilm import BiLM, BiLMOutput, distinct_rows
from elmo.model.lstm import LSTMState
from elmo.model.token_encoder import Highway
from elmo.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    END_SENTENCE,
    END_TOKEN,
    ByteCharacters,
)

# AllenNLP has 50 characters a word whatever the options say, and reads a literal <S> as the mark.
CHARACTERS = ByteCharacters(50, {BEGIN_TOKEN: BEGIN_SENTENCE, END_TOKEN: END_SENTENCE})
_SCOPE = "_elmo_lstm."


class StateTable(nn.Module):
    """The states AllenNLP keeps from call to call, one row for each row of a batch.

    It stands where AllenNLP has its LSTMs, whose parameters are put below it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table: LSTMState | None = None
        self.stateful = True

    def reset_states(self) -> None:
        """Forget everything."""
        self.table = None

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """The table in AllenNLP's shape: (layers, rows, forward beside backward) for h and c."""
        if self.table is None:
            return None
        h, c = (torch.cat(list(value.unbind(1)), dim=2) for value in (self.table.h, self.table.c))
        return h, c

    def take(self, batch: int) -> LSTMState | None:
        """Give the rows for a batch."""
        return None if self.table is None or not self.stateful else self.table.rows(batch)

    def put(self, state: LSTMState) -> None:
        """Keep the rows of a batch; those beyond it stay."""
        if not self.stateful:
            return
        state = state.detach()
        self.table = state if self.table is None else self.table.updated(state)


class OldHighway(Highway):
    """AllenNLP's gate, which opens for the input where ours does for the transformed value."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., dim) to (..., dim)."""
        transform, gate = self.linear(x).chunk(2, dim=-1)
        return torch.lerp(transform.relu().to(x.dtype), x, gate.sigmoid().to(x.dtype))


class BareBiLM:
    """Our biLM without weights of its own; whoever uses it brings them."""

    def __init__(self, config: ModelConfig) -> None:
        with torch.device("meta"):
            self._holder = _Holder(BiLM(config=config))
            characters = self._holder.bilm.encoder.characters
            assert characters is not None
            for number in range(config.encoder.n_highway):
                characters.highway[number] = OldHighway(dim=config.encoder.n_filters)

    def __call__(self, weights: dict[str, Tensor], use: Callable[[BiLM], Any]) -> Any:
        """Call `use` with the biLM, which holds these weights, by our names, meanwhile."""
        return functional_call(self._holder, weights, (use,))


class _Holder(nn.Module):
    """Puts the level `bilm` above the names of a biLM, as all names of ours have it."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm

    def forward(self, use: Callable[[BiLM], Any]) -> Any:
        return use(self.bilm)


class ElmoBiLM(nn.Module):
    """The biLM with sentence marks put in and state carried on."""

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
    ) -> None:
        """Load the biLM.

        Args:
            options_file: options.json.
            weight_file: weights.hdf5.
            requires_grad: train it.
            vocab_to_cache: words whose vectors are computed now; the first is padding.
        """
        super().__init__()
        for path in (options_file, weight_file):
            if "://" in str(path):
                raise FormatError(f"{path} is an address: download the file and name its path")
        found = read(options=options_file, weights=weight_file)
        config = found.config
        if config.text.characters != "bytes" or config.encoder.n_words:
            raise FormatError(f"AllenNLP's classes take byte-character models, not {found.origin}")
        # AllenNLP holds the forget bias inside the bias.
        found = found.with_forget_bias(0.0)
        rules = [rule for rule in allennlp_modules(config) if rule.names[0] in found.weights]
        self._bare = BareBiLM(found.config)
        self._names = {rule.names[0]: next(iter(rule.foreign))[len(_SCOPE) :] for rule in rules}
        self._token_embedder = nn.Module()
        self._elmo_lstm = StateTable()
        for name, array in export_weights(rules, found.weights).items():
            value = nn.Parameter(torch.from_numpy(array), requires_grad=requires_grad)
            _plant(self, name.removeprefix(_SCOPE), value)
        self.num_layers = config.n_layers
        self._dim = config.dim
        marks = torch.from_numpy(CHARACTERS.boundaries())
        self.register_buffer("_marks", marks, persistent=False)
        self.register_load_state_dict_pre_hook(_without_cache)  # type: ignore[no-untyped-call]
        self._cached: Tensor | None
        self.register_buffer("_cached", None, persistent=False)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """Width of a vector: both directions."""
        return self._dim

    def create_cached_cnn_embeddings(self, tokens: list[str]) -> None:
        """Compute the token vectors of a vocabulary, for `word_inputs`.

        Args:
            tokens: words in the order of their ids; the first is padding.
        """
        marks = self._boundary_rows()
        words = torch.from_numpy(CHARACTERS.ids(tokens)).to(marks.device)
        with torch.no_grad():
            table = self._encode(torch.cat([words, marks]))
        table[0] = 0.0
        self._cached = table

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Run the biLM, going on from the state of the last call.

        Args:
            inputs: character ids without marks, (batch, time, 50).
            word_inputs: ids into the cached vocabulary, (batch, time), 0 being padding; used where
                every id is in it.

        Returns:
            `activations`, a list of (batch, time + 2, dim), and `mask`, (batch, time + 2).
        """
        cached = self._cached
        if cached is not None and word_inputs is not None and _inside(word_inputs, len(cached) - 2):
            # Rows of the cache: the vocabulary, whose first entry is padding, then the two marks.
            begin, end = torch.tensor([[len(cached) - 2], [len(cached) - 1]]).to(word_inputs)
            index = _with_marks(word_inputs.unsqueeze(2), word_inputs > 0, begin, end).squeeze(2)
            mask = (cached > 0).any(dim=1)[index]
            output = self._call(cached, index, mask)
        elif inputs is None:
            raise InputError("word_inputs holds ids outside the cached vocabulary, and no inputs")
        else:
            real = (inputs > 0).any(dim=2)
            begin, end = self._boundary_rows()
            ids = _with_marks(inputs, real, begin, end)
            rows, index = distinct_rows(ids)
            mask = (ids > 0).any(dim=2)
            output = self._call(self._encode(rows), index, mask)
        return {"activations": list(output.layers), "mask": output.mask}

    def _encode(self, rows: Tensor) -> Tensor:
        vectors: Tensor = self._bare(self._weights(), lambda bilm: bilm.encoder(rows))
        return vectors

    def _weights(self) -> dict[str, Tensor]:
        return {ours: self.get_parameter(theirs) for ours, theirs in self._names.items()}

    def _call(self, table: Tensor, index: Tensor, mask: Tensor) -> BiLMOutput:
        state = self._elmo_lstm.take(index.shape[0])
        lengths = mask.sum(dim=1).tolist()
        output: BiLMOutput = self._bare(
            self._weights(), lambda bilm: bilm.contextualize(table, index, mask, state, lengths)
        )
        self._elmo_lstm.put(output.state)
        return output

    def _boundary_rows(self) -> Tensor:
        marks = self._marks
        assert isinstance(marks, Tensor)
        return marks


def _inside(ids: Tensor, n_words: int) -> bool:
    return ids.numel() == 0 or (int(ids.min()) >= 0 and int(ids.max()) < n_words)


def _with_marks(ids: Tensor, real: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Put a mark before the first and after the last real position: (batch, time + 2, columns)."""
    batch, time, columns = ids.shape
    marked = ids.new_zeros(batch, time + 2, columns)
    marked[:, 1:-1] = ids * real.unsqueeze(2)
    marked[:, 0] = begin
    marked[torch.arange(batch, device=ids.device), real.sum(dim=1) + 1] = end
    return marked


def _plant(module: nn.Module, name: str, value: nn.Parameter) -> None:
    """Register a parameter below a module by its dotted name, making the modules between."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    module.register_parameter(last, value)


def _without_cache(module: nn.Module, state: dict[str, Any], prefix: str, *rest: object) -> None:
    """Take a cached vocabulary out of a state dict: it is rebuilt from the words, not loaded."""
    state.pop(f"{prefix}_word_embedding.weight", None)
