"""The biLM as AllenNLP runs it: sentence marks put in, state kept from call to call, old names.

The part of `elmo.compat.allennlp` below its public classes.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.errors import FormatError, InputError
from elmo.formats.keys import allennlp_modules, to_ours, to_theirs
from elmo.formats.load import read
from elmo.model.bilm import BiLM, BiLMOutput, distinct_rows
from elmo.model.lstm import LSTMState
from elmo.text.characters import (
    BEGIN_MARK,
    BEGIN_SENTENCE,
    END_MARK,
    END_SENTENCE,
    ByteCharacters,
)

# AllenNLP has 50 characters a word whatever the options say, and reads a literal <S> as the mark.
CHARACTERS = ByteCharacters(50, {BEGIN_MARK: BEGIN_SENTENCE, END_MARK: END_SENTENCE})
_SCOPE = "_elmo_lstm."


class StateTable:
    """The states AllenNLP keeps from call to call, one row for each row of a batch."""

    def __init__(self) -> None:
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
        # AllenNLP's state dicts hold the forget bias inside the bias.
        folded = dataclasses.replace(config.lstm, forget_bias=0.0)
        self._config = dataclasses.replace(config, lstm=folded)
        weights = {
            name.removeprefix("bilm."): value
            for name, value in found.weights.items()
            if name.startswith("bilm.")
        }
        with torch.device("meta"):
            before = BiLM(config=config)
            self.bilm = BiLM(config=self._config)
        before.load_state_dict(weights, assign=True)
        for stack in ("forward_lstm", "backward_lstm"):
            for depth, layer in enumerate(getattr(before, stack).layers):
                weights[f"{stack}.layers.{depth}.bias"] = layer.bias_with_forget().detach()
        self.bilm.load_state_dict(weights, assign=True)
        self.bilm.requires_grad_(requires_grad)
        self.num_layers = config.n_layers
        self._elmo_lstm = StateTable()
        marks = torch.from_numpy(CHARACTERS.boundaries())
        self.register_buffer("_marks", marks, persistent=False)
        self._rules = allennlp_modules(self._config)
        self.register_state_dict_post_hook(_to_old_names)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_to_new_names)  # type: ignore[no-untyped-call]
        self._cached: Tensor | None = None
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """Width of a vector: both directions."""
        return self._config.dim

    def create_cached_cnn_embeddings(self, tokens: list[str]) -> None:
        """Compute the token vectors of a vocabulary, for `word_inputs`.

        Args:
            tokens: words in the order of their ids; the first is padding.
        """
        marks = self._boundary_rows()
        words = torch.from_numpy(CHARACTERS.ids(tokens)).to(marks.device)
        with torch.no_grad():
            table: Tensor = self.bilm.encoder(torch.cat([words, marks]))
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
            output = self._call(self.bilm.encoder(rows), index, mask)
        return {"activations": list(output.layers), "mask": output.mask}

    def _call(self, table: Tensor, index: Tensor, mask: Tensor) -> BiLMOutput:
        state = self._elmo_lstm.take(index.shape[0])
        lengths = mask.sum(dim=1).tolist()
        output: BiLMOutput = self.bilm.contextualise(table, index, mask, state, lengths)
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


def _to_old_names(
    module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: Mapping[str, Any]
) -> None:
    """Rename our tensors in a state dict being made to AllenNLP's."""
    assert isinstance(module, ElmoBiLM)
    ours = {
        name.removeprefix(prefix): state.pop(name)
        for name in list(state)
        if name.startswith(f"{prefix}bilm.")
    }
    for name, array in to_theirs(module._rules, ours).items():
        state[prefix + name.removeprefix(_SCOPE)] = torch.from_numpy(array)


def _to_new_names(module: nn.Module, state: dict[str, Any], prefix: str, *rest: object) -> None:
    """Rename AllenNLP's tensors in a state dict being loaded to ours."""
    assert isinstance(module, ElmoBiLM)
    theirs = {
        _SCOPE + name.removeprefix(prefix): state.pop(name)
        for name in list(state)
        if name.startswith((f"{prefix}_token_embedder.", f"{prefix}_elmo_lstm."))
    }
    # A cached vocabulary is rebuilt from the words, not loaded.
    state.pop(f"{prefix}_word_embedding.weight", None)
    arrays = {name: value.detach().float().cpu().numpy() for name, value in theirs.items()}
    # Whether something may be missing is for `load_state_dict` and its `strict` to say.
    rules = [rule for rule in module._rules if rule.theirs.keys() <= arrays.keys()]
    known = {name for rule in rules for name in rule.theirs}
    for name in arrays.keys() - known:
        state[prefix + name.removeprefix(_SCOPE)] = theirs[name]
    present = {name: arrays[name] for name in known}
    for name, value in to_ours(rules, present, "the state dict").items():
        state[prefix + name] = value
