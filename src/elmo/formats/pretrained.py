"""What every reader gives and every writer takes: a model as plain data, checked in one place."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from elmo.config import ModelConfig
from elmo.errors import FormatError
from elmo.model.network import ELMoNetwork
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT
from elmo.text.tokenizer import get_tokenizer
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pretrained:
    """A model read from a file.

    Attributes:
        config: its dials.
        weights: tensors by the names of `ELMoNetwork`.
        origin: the kind of file, in words.
        vocabulary: words of the softmax, where the model has one.
        characters: raw id of each symbol, in a scheme that has a dictionary.
        words: raw id of each input word, where the model has a word table.
        notes: what was mended or assumed while reading, in sentences.
        options: the options.json the model came with, written back with it.
        source: the file it was read from, for messages.
        training: how it was trained, in names and values, where we trained it.
        storage: type and size of the weights in the file, where it is ours.
    """

    config: ModelConfig
    weights: Mapping[str, Tensor]
    origin: str
    vocabulary: Vocabulary | None = None
    characters: Mapping[str, int] | None = None
    words: Mapping[str, int] | None = None
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] | None = None
    source: str | None = None
    training: Mapping[str, Any] | None = None
    storage: str | None = None

    def __post_init__(self) -> None:
        """Compare every tensor with what the config implies; refuse what does not fit."""
        expected = expected_shapes(self.config)
        found = {name: tuple(tensor.shape) for name, tensor in self.weights.items()}
        missing, unknown = sorted(expected.keys() - found), sorted(found.keys() - expected)
        if missing or unknown:
            raise FormatError(
                f"the weights of this {self.origin} do not fit its configuration: "
                f"missing {_some(missing)}; not expected {_some(unknown)}"
            )
        for name, shape in expected.items():
            if found[name] != shape:
                raise FormatError(
                    f"{name} has shape {found[name]}, but the configuration implies {shape}: the "
                    f"weights and the configuration of this {self.origin} belong to two models"
                )
        check_finite(self.weights, self.source or f"this {self.origin}")
        self._check_words()

    def _check_words(self) -> None:
        n_characters = self.config.encoder.n_characters
        if self.config.text.characters == "bytes" and n_characters != N_BYTE_CHARACTERS + SHIFT:
            raise FormatError(
                f"the character table of this {self.origin} has {n_characters} rows, expected "
                f"{N_BYTE_CHARACTERS + SHIFT}: one for each byte, five marks and the mask"
            )
        n_softmax = self.config.n_softmax_words
        if self.vocabulary is not None and n_softmax not in (0, len(self.vocabulary)):
            raise FormatError(
                f"the softmax has {n_softmax} words, the vocabulary {len(self.vocabulary)}: it is "
                "the vocabulary of another model"
            )
        for table, n_rows, what in (
            (self.words, self.config.encoder.n_words, "word"),
            (self.characters, self.config.encoder.n_characters, "character"),
        ):
            largest = max(table.values(), default=-1) if table else -1
            if table is not None and (largest + 1 >= n_rows or min(table.values(), default=0) < 0):
                raise FormatError(
                    f"the {what} dictionary goes up to id {largest}, but the {what} table of this "
                    f"{self.origin} has {n_rows - 1} rows: they belong to two models"
                )

    def with_tokenizer(self, name: str) -> "Pretrained":
        """Record a tokeniser; an unknown name is refused."""
        text = dataclasses.replace(self.config.text, tokenizer=get_tokenizer(name).name)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, text=text))

    def with_forget_bias(self, value: float) -> "Pretrained":
        """Give the same model with `value` as its forget bias and the rest inside the biases."""
        surplus = value - self.config.lstm.forget_bias
        if not surplus:
            return self
        weights = dict(self.weights)
        for name in weights:
            if "_lstm." in name and name.endswith(".bias"):
                i, f, g, o = weights[name].chunk(4)
                weights[name] = torch.cat([i, f - surplus, g, o])
        lstm = dataclasses.replace(self.config.lstm, forget_bias=value)
        config = dataclasses.replace(self.config, lstm=lstm)
        return dataclasses.replace(self, config=config, weights=weights)

    @property
    def n_parameters(self) -> int:
        """Trained values of the biLM, without mask rows, mixes and softmax."""
        names = [name for name in self.weights if name.startswith("bilm.")]
        masks = sum(
            self.weights[name].shape[1]
            for name in ("bilm.encoder.characters.embedding.weight", "bilm.encoder.words.weight")
            if name in self.weights
        )
        return sum(self.weights[name].numel() for name in names) - masks


def check_finite(weights: Mapping[str, Tensor], label: str) -> None:
    """Refuse NaN and infinite values.

    Args:
        weights: tensors by name.
        label: the file, for messages.
    """
    for name, tensor in weights.items():
        # A sum is quick, and no number only if one of its numbers is none or it ran over.
        is_sound = tensor.sum(dtype=torch.float32).isfinite() or torch.isfinite(tensor).all()
        if not is_sound:
            raise FormatError(
                f"{label}: {name} holds NaN or infinite values: the file is damaged, or training "
                "had diverged when it was saved; take an earlier copy"
            )


@lru_cache(maxsize=16)  # a model is checked several times on its way to the user
def expected_shapes(config: ModelConfig) -> Mapping[str, tuple[int, ...]]:
    """Give name and shape of every tensor a model of this config has."""
    try:
        with torch.device("meta"):
            network = ELMoNetwork(config=config)
    except (RuntimeError, TypeError) as error:  # negative sizes, or too large ones
        reason = str(error).splitlines()[0]
        raise FormatError(f"no network has the sizes of this configuration: {reason}") from None
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4]) or "nothing"
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
