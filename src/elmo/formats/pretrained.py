"""`Pretrained`, the in-memory model that all readers return and all writers accept."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from elmo.config import ModelConfig
from elmo.errors import FormatError, listing
from elmo.model.network import ELMoNetwork
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT
from elmo.text.tokenizers_by_name import get_tokenizer
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pretrained:
    """A model as plain data: config, weights and dictionaries.

    Attributes:
        config: Model config.
        weights: Tensors by `ELMoNetwork` parameter name.
        origin: Description of the file format.
        vocabulary: Softmax vocabulary, if the model has one.
        characters: Id of each symbol as stored in the dictionary file, if the character scheme uses
            one.
        words: Id of each input word as stored in the dictionary file, if the model has word
            embeddings.
        notes: Corrections and assumptions made while reading, one sentence each.
        options: Content of the options.json that the model was loaded with, preserved when the
            model is written.
        source: File the model was read from, for error messages.
        training: Training record, if the model was trained with elmo-torch.
        storage: Dtype and size of the weights on disk, if read from an elmo-torch folder.
        attribution: Language, license, publisher's page and the published model that this one is
            derived from, as far as they are known (`attribution.py`).
    """

    config: ModelConfig
    weights: Mapping[str, Tensor]
    origin: str
    vocabulary: Vocabulary | None = None
    characters: Mapping[str, int] | None = None
    words: Mapping[str, int] | None = None
    notes: tuple[str, ...] = ()
    options: Mapping[str, object] | None = None
    source: str | None = None
    training: Mapping[str, object] | None = None
    storage: str | None = None
    attribution: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check tensors and dictionaries against the config; raise `FormatError` on a mismatch."""
        expected = expected_shapes(self.config)
        shapes = {name: tuple(tensor.shape) for name, tensor in self.weights.items()}
        missing, unknown = sorted(expected.keys() - shapes), sorted(shapes.keys() - expected)
        if missing or unknown:
            raise FormatError(
                f"The weights of this {self.origin} do not match its configuration. Missing: "
                f"{listing(missing)}. Unexpected: {listing(unknown)}."
            )
        for name, shape in expected.items():
            if shapes[name] != shape:
                raise FormatError(
                    f"{name} has shape {shapes[name]}, but the configuration implies {shape}. The "
                    f"weights and the configuration of this {self.origin} belong to different "
                    "models."
                )
        check_finite(self.weights, self.source or f"this {self.origin}")
        self._check_dictionaries()

    def _check_dictionaries(self) -> None:
        n_characters = self.config.encoder.n_characters
        if self.config.text.characters == "bytes" and n_characters != N_BYTE_CHARACTERS + SHIFT:
            raise FormatError(
                f"The character embedding of this {self.origin} has {n_characters} rows, expected "
                f"{N_BYTE_CHARACTERS + SHIFT}: 256 bytes, five special characters and the mask."
            )
        n_softmax = self.config.n_softmax_words
        if self.vocabulary is not None and n_softmax not in (0, len(self.vocabulary)):
            raise FormatError(
                f"The softmax has {n_softmax} words but the vocabulary has {len(self.vocabulary)}. "
                "The vocabulary belongs to another model."
            )
        for table, n_rows, name in (
            (self.words, self.config.encoder.n_words, "word"),
            (self.characters, self.config.encoder.n_characters, "character"),
        ):
            largest = max(table.values(), default=-1) if table else -1
            if table is not None and (largest + 1 >= n_rows or min(table.values(), default=0) < 0):
                raise FormatError(
                    f"The {name} dictionary goes up to id {largest}, but the {name} embedding of "
                    f"this {self.origin} has {n_rows - 1} rows. They belong to different models."
                )

    def with_tokenizer(self, name: str) -> "Pretrained":
        """Return a copy with this tokenizer name; raise `ConfigError` if the name is unknown."""
        text = dataclasses.replace(self.config.text, tokenizer=get_tokenizer(name).name)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, text=text))

    def with_forget_bias(self, value: float) -> "Pretrained":
        """Return an equivalent model with this forget bias, adjusting the LSTM biases."""
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
        """Number of biLM parameters, excluding mask rows, layer mixes and softmax."""
        return count_parameters(self.weights)


def count_parameters(weights: Mapping[str, Tensor]) -> int:
    """Return the number of biLM parameters, excluding mask rows, layer mixes and softmax."""
    names = [name for name in weights if name.startswith("bilm.")]
    masks = sum(
        weights[name].shape[1]
        for name in ("bilm.encoder.characters.embedding.weight", "bilm.encoder.words.weight")
        if name in weights
    )
    return sum(weights[name].numel() for name in names) - masks


def check_finite(weights: Mapping[str, Tensor], label: str) -> None:
    """Raise `FormatError` if a tensor contains NaN or infinite values."""
    for name, tensor in weights.items():
        # Quick test first: if the sum is finite, all values are. Otherwise the sum may have
        # overflowed, so every value is checked.
        is_finite = tensor.sum(dtype=torch.float32).isfinite() or torch.isfinite(tensor).all()
        if not is_finite:
            raise FormatError(
                f"{label}: {name} contains NaN or infinite values. The file is damaged, or "
                "training had diverged when it was saved. Use an earlier copy."
            )


@lru_cache(maxsize=16)  # loading a model checks the same config several times
def expected_shapes(config: ModelConfig) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each tensor of a model with this config, by tensor name."""
    try:
        with torch.device("meta"):
            network = ELMoNetwork(config=config)
    except (RuntimeError, TypeError) as error:  # negative sizes, or too large ones
        reason = str(error).splitlines()[0]
        raise FormatError(f"The sizes in this configuration are invalid: {reason}") from None
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
