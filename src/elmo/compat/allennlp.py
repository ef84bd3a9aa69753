"""The ELMo classes of AllenNLP: code written for them runs after changing the import line.

They behave like AllenNLP: LSTM states are carried from call to call, a word `<S>` is read as the
boundary token, words have 50 characters regardless of the options file, and state dicts have
AllenNLP's names. For vectors that depend only on their sentence, use `elmo.ELMo`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo.compat.allennlp_bilm import CHARACTERS, ElmoBiLM, ElmoCharacterEncoder
from elmo.compat.allennlp_indexer import ELMoCharacterMapper, ELMoTokenCharactersIndexer
from elmo.embed.vector_writers import HDF5Writer, check_sentence_keys
from elmo.errors import ConfigError, InputError, listing, shortened
from elmo.files import atomic_path
from elmo.model.bilm import without_boundaries
from elmo.model.layer_mix import layer_norm, mix_layers
from elmo.model.network import ALLENNLP_EPSILON

__all__ = [
    "ELMoCharacterMapper",
    "ELMoTokenCharactersIndexer",
    "Elmo",
    "ElmoEmbedder",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "_ElmoBiLm",
    "_ElmoCharacterEncoder",
    "batch_to_ids",
    "remove_sentence_boundaries",
]

_ElmoBiLm = ElmoBiLM
_ElmoCharacterEncoder = ElmoCharacterEncoder

WEIGHTS_MISSING = (
    "weight_file is required: the path of weights.hdf5, with options_file as the path of "
    'options.json, or the name of a downloaded model, such as weight_file="ai2-original" (names: '
    "elmo download --list)."
)


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Return the character ids of sentences, (sentences, words, 50), without boundary tokens.

    Args:
        batch: Sentences as lists of words.

    Raises:
        InputError: A sentence is not a list of words.
    """
    _check_sentences(batch)
    max_length = max((len(sentence) for sentence in batch), default=0)
    lengths = np.array([len(sentence) for sentence in batch], dtype=np.int64)
    ids = np.zeros((len(batch), max_length, CHARACTERS.max_characters), dtype=np.int64)
    real = np.arange(max_length) < lengths[:, None]
    ids[real] = CHARACTERS.ids([word for sentence in batch for word in sentence])
    return torch.from_numpy(ids)


def _check_sentences(batch: Sequence[Sequence[str]]) -> None:
    """Raise `InputError` if a batch does not consist of lists of words."""
    for sentence in [batch] if isinstance(batch, str) else batch:
        if isinstance(sentence, str):
            raise InputError(
                f"batch_to_ids expects sentences as lists of words (got the string "
                f"{shortened(repr(sentence), 60)}). Split it into words first."
            )
        for word in sentence:
            if not isinstance(word, str):
                raise InputError(
                    f"batch_to_ids expects words as strings (got {shortened(repr(word), 60)} of "
                    f"type {type(word).__name__})."
                )


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Remove the first and the last real position of each sentence.

    Args:
        tensor: Vectors, (batch, time, dim).
        mask: True or 1 at real positions, (batch, time), padding on the right.

    Returns:
        Vectors, (batch, time - 2, dim), zero at padding, and a mask of booleans, (batch, time - 2).
    """
    return without_boundaries(tensor, mask.bool())


class ScalarMix(nn.Module):
    """Weighted sum of layers with AllenNLP's parameter names."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        """Create a mix.

        Args:
            mixture_size: Number of layers.
            do_layer_norm: Normalize each layer over the batch first.
            initial_scalar_parameters: Initial weights, before the softmax. Default: zeros.
            trainable: Whether weights and gamma are trained.
        """
        super().__init__()
        initial = initial_scalar_parameters or [0.0] * mixture_size
        if len(initial) != mixture_size:
            raise ConfigError(
                f"initial_scalar_parameters must have one weight per layer ({mixture_size}, got "
                f"{len(initial)})."
            )
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in initial
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Return the weighted sum of the layers.

        Args:
            tensors: Layers, each (batch, time, dim).
            mask: Mask, (batch, time), needed with `do_layer_norm`.

        Returns:
            Sum, (batch, time, dim).
        """
        if len(tensors) != self.mixture_size:
            raise InputError(f"Expected {self.mixture_size} tensors to mix (got {len(tensors)}).")
        layers = torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise InputError("A mix with do_layer_norm=True needs a mask.")
            layers = layer_norm(layers, mask.bool(), ALLENNLP_EPSILON)
        return mix_layers(layers, torch.cat(list(self.scalar_parameters)), self.gamma)


class Elmo(nn.Module):
    """AllenNLP's `Elmo`: one biLM with one or more layer mixes."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: list[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        """Load the biLM and create the mixes.

        Args:
            options_file: Path of options.json. Default: found with the weights.
            weight_file: Path of weights.hdf5. Without `options_file`, also the name of a downloaded
                model or a folder.
            num_output_representations: Number of mixes.
            requires_grad: Whether the biLM is trained.
            do_layer_norm: Normalize the layers before mixing.
            dropout: Dropout rate of each representation.
            vocab_to_cache: Words whose token vectors are computed in advance. The first is padding.
            keep_sentence_boundaries: Keep the boundary tokens in the output.
            scalar_mix_parameters: Mix weights before the softmax. If given, the mixes are not
                trained.
            module: Module to use instead of the files. It has `num_layers`, `get_output_dim()` and
                the results of `_ElmoBiLm`.
        """
        super().__init__()
        if module is not None:
            if options_file is not None or weight_file is not None:
                raise ConfigError("Use either options_file and weight_file, or module, not both.")
            self._elmo_lstm: Any = module
        elif weight_file is None:
            raise ConfigError(WEIGHTS_MISSING)
        else:
            self._elmo_lstm = ElmoBiLM(
                options_file,
                weight_file,
                requires_grad=requires_grad,
                vocab_to_cache=vocab_to_cache,
            )
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(p=dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)
            self._scalar_mixes.append(mix)

    def get_output_dim(self) -> int:
        """Return the width of a representation."""
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Compute the representations.

        Args:
            inputs: Ids of `batch_to_ids`, (batch, ..., time, 50).
            word_inputs: Ids of the cached vocabulary, (batch, ..., time).

        Returns:
            `elmo_representations`, a list of (batch, ..., time, dim), and `mask`, (batch, ...,
            time).
        """
        if not isinstance(inputs, Tensor) or inputs.dim() < 3:
            found = f"shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else repr(inputs)
            raise InputError(
                f"inputs must be a tensor of ids of shape (batch, words, 50) (got "
                f"{shortened(found, 60)}). Create it with batch_to_ids(sentences)."
            )
        words = None if word_inputs is None else word_inputs.reshape(-1, word_inputs.shape[-1])
        output = self._elmo_lstm(inputs.reshape(-1, *inputs.shape[-2:]), words)
        representations = []
        mask = output["mask"]
        for mix in self._scalar_mixes:
            mixed = mix(output["activations"], mask)
            if not self._keep_sentence_boundaries:
                mixed, _ = without_boundaries(mixed, mask)
            representations.append(self._dropout(mixed))
        if not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
        outer = inputs.shape[:-2]
        return {
            "elmo_representations": [
                item.view(*outer, *item.shape[1:]) for item in representations
            ],
            "mask": mask.view(*outer, -1),
        }


class ElmoTokenEmbedder(nn.Module):
    """AllenNLP's `ElmoTokenEmbedder`: one representation of `Elmo`, optionally projected."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: list[str] | None = None,
        scalar_mix_parameters: list[float] | None = None,
    ) -> None:
        """Load the biLM.

        Args:
            options_file: Path of options.json. Default: found with the weights.
            weight_file: Path of weights.hdf5. Without `options_file`, also the name of a downloaded
                model or a folder.
            do_layer_norm: Normalize the layers before mixing.
            dropout: Dropout rate of the representation.
            requires_grad: Whether the biLM is trained.
            projection_dim: Width of a linear layer after ELMo. Default: no such layer.
            vocab_to_cache: Words whose token vectors are computed in advance. The first is padding.
            scalar_mix_parameters: Mix weights before the softmax. If given, the mix is not trained.
        """
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        self.output_dim = projection_dim or self._elmo.get_output_dim()
        self._projection: nn.Linear | None = None
        if projection_dim:
            self._projection = nn.Linear(self._elmo.get_output_dim(), projection_dim)

    def get_output_dim(self) -> int:
        """Return the width of a vector: that of the projection, if there is one."""
        return self.output_dim

    def forward(self, elmo_tokens: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """Compute the vectors.

        Args:
            elmo_tokens: Ids of `batch_to_ids` or of the indexer, (batch, ..., time, 50).
            word_inputs: Ids of the cached vocabulary, (batch, ..., time).

        Returns:
            Vectors, (batch, ..., time, dim).
        """
        vectors: Tensor = self._elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        return vectors if self._projection is None else self._projection(vectors)


class ElmoEmbedder:
    """AllenNLP 0.9's `ElmoEmbedder`: returns all layers and carries state from call to call."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
    ) -> None:
        """Load the biLM.

        Args:
            options_file: Path of options.json. Default: found with the weights.
            weight_file: Path of weights.hdf5. Without `options_file`, also the name of a downloaded
                model or a folder.
            cuda_device: GPU number, or -1 for the CPU.
        """
        if weight_file is None:
            raise ConfigError(WEIGHTS_MISSING)
        self.elmo_bilm = ElmoBiLM(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm.to(torch.device("cuda", cuda_device))

    def batch_to_embeddings(self, batch: list[list[str]]) -> tuple[Tensor, Tensor]:
        """Return all layers of a batch, (batch, layers, time, dim), and the mask, (batch, time)."""
        ids = batch_to_ids(batch).to(next(self.elmo_bilm.parameters()).device)
        with torch.no_grad():
            output = self.elmo_bilm(ids)
            layers, mask = without_boundaries(torch.stack(output["activations"]), output["mask"])
        return layers.transpose(0, 1), mask

    def embed_sentence(self, sentence: list[str]) -> NDArray[Any]:
        """Return the vectors of a sentence, (layers, words, dim)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: list[list[str]]) -> list[NDArray[Any]]:
        """Return the vectors of each sentence of a batch, (layers, words, dim)."""
        empty = np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()))
        if batch == [[]]:
            return [empty]
        layers, mask = self.batch_to_embeddings(batch)
        lengths = mask.sum(dim=1).tolist()
        return [
            layers[row, :, :length].cpu().numpy() if length else empty
            for row, length in enumerate(lengths)
        ]

    def embed_sentences(
        self, sentences: Iterable[list[str]], batch_size: int = 64
    ) -> Iterator[NDArray[Any]]:
        """Yield the vectors of each sentence, (layers, words, dim), computed in batches."""
        batch: list[list[str]] = []
        for sentence in sentences:
            batch.append(sentence)
            if len(batch) == batch_size:
                yield from self.embed_batch(batch)
                batch = []
        if batch:
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file's sentences to HDF5.

        Args:
            input_file: Lines with one sentence each, words separated by whitespace.
            output_file_path: File to write.
            output_format: Layers to write: "all", "top" or "average".
            batch_size: Batch size.
            forget_sentences: Do not write `sentence_to_index`.
            use_sentence_keys: Use the sentences as dataset keys instead of their numbers.

        Raises:
            ConfigError: The output format is unknown.
            InputError: There are blank lines.
            OutputError: The sentences cannot be keys.
        """
        choices: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
            "all": lambda layers: layers,
            "top": lambda layers: layers[-1],
            "average": lambda layers: layers.mean(axis=0),
        }
        if output_format not in choices:
            raise ConfigError(
                f"Unknown output_format {output_format!r}. Expected one of: {', '.join(choices)}."
            )
        select = choices[output_format]
        lines = [line.strip() for line in input_file]
        blank = [str(number) for number, line in enumerate(lines) if not line]
        if blank:
            raise InputError(
                f"Remove the blank lines of input_file: {listing(blank, 10)} (counted from 0)."
            )
        if use_sentence_keys:
            check_sentence_keys(lines)
        split = [line.split() for line in lines]
        with atomic_path(Path(output_file_path)) as partial:
            writer = HDF5Writer(
                partial,
                index_sentences=not (forget_sentences or use_sentence_keys),
                store_words=False,
                sentence_keys=use_sentence_keys,
            )
            try:
                for line, words, layers in zip(
                    lines, split, self.embed_sentences(split, batch_size), strict=True
                ):
                    writer.write(line, words, select(layers))
            finally:
                writer.close()
