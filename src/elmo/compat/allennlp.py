"""The ELMo classes of AllenNLP: code written for them runs after changing the import line.

They behave like AllenNLP: LSTM states are carried from call to call, a word `<S>` is read as the
boundary token, words have 50 characters regardless of the options file, and state dicts have
AllenNLP's names. For vectors that depend only on their sentence, use `elmo.ELMo`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmo.compat.allennlp_bilm import ElmoBiLM, ElmoCharacterEncoder
from elmo.compat.allennlp_embedder import ElmoEmbedder
from elmo.compat.allennlp_files import WEIGHTS_MISSING
from elmo.compat.allennlp_indexer import (
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    batch_to_ids,
)
from elmo.errors import ConfigError, InputError, shortened
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


class ElmoRepresentations(TypedDict):
    """Output of `Elmo`."""

    elmo_representations: list[Tensor]
    mask: Tensor


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

    def refresh(self) -> None:
        """Make the next call use the current weights; see `ELMo.refresh`."""
        if isinstance(self._elmo_lstm, ElmoBiLM):
            self._elmo_lstm.refresh()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoRepresentations:
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
