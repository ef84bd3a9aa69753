"""Selects the layers that `encode` returns, and pools word vectors into sentence vectors."""

import operator
from collections.abc import Callable
from functools import partial
from typing import SupportsIndex

import torch
from torch import Tensor

from elmo.config import Layers
from elmo.embed.host_arrays import HostArray
from elmo.errors import ConfigError, shortened
from elmo.model.bilm import BiLMOutput
from elmo.model.layer_mix import LayerMix
from elmo.model.network import ELMoNetwork

NAMED_LAYERS: dict[str, Callable[[BiLMOutput], Tensor]] = {
    "average": lambda output: output.average(),
    "top": lambda output: output.layer(-1),
    "all": lambda output: output.layers,
}


def layer_selector(network: ELMoNetwork, layers: Layers) -> Callable[[BiLMOutput], Tensor]:
    """Return a function that selects layers: "average", "mix", "top", "all" or a layer number.

    It maps a network output to a tensor (batch, time, dim), or (layers, batch, time, dim) for
    "all". An unknown value, or "mix" without a trained mix, is an error.
    """
    number = _layer_number(network, layers)
    if number is not None:
        return lambda output: output.layer(number)
    if layers == "mix":
        return partial(_mix, network, _trained_mix(network))
    return NAMED_LAYERS[str(layers)]


def n_lstm_layers(network: ELMoNetwork, layers: Layers) -> int:
    """Return the number of LSTM layers that must be computed for the requested layers."""
    number = _layer_number(network, layers)
    return network.config.lstm.n_layers if number is None else number


def _layer_number(network: ELMoNetwork, layers: Layers) -> int | None:
    """Return the layer number given as an integer or a string; None if `layers` is a name."""
    numbers = range(network.config.n_layers)
    number = as_integer(layers)
    if isinstance(layers, str):
        if layers in (*NAMED_LAYERS, "mix"):
            return None
        number = {str(known): known for known in numbers}.get(layers)
    if number is None or number not in numbers:
        raise ConfigError(
            f"Unknown layers {shortened(repr(layers), 60)}. Expected average, mix, top, all or a "
            f"number from 0 to {numbers[-1]}."
        )
    return number


def as_integer(value: object) -> int | None:
    """Convert an integer to `int`, also a scalar of NumPy or PyTorch.

    Returns None for truth values, arrays with dimensions and all other types.
    """
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool
    if is_bool or getattr(value, "ndim", 0) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def needs_boundaries(network: ELMoNetwork, layers: Layers) -> bool:
    """Whether the requested layers depend on the vectors of the boundary tokens.

    This is the case for a mix with layer normalization, whose statistics are computed over all
    positions of a sentence, including the boundary tokens.
    """
    return layers == "mix" and network.config.mix.layer_norm != "none"


def _trained_mix(network: ELMoNetwork) -> LayerMix:
    mix = network.mixes[0] if len(network.mixes) else None
    if not isinstance(mix, LayerMix) or not mix.is_trained():
        raise ConfigError(
            "layers 'mix' needs a trained mix, but the mix of this model is not trained. Use "
            "'average', or train the mix in a task first."
        )
    return mix


def _mix(network: ELMoNetwork, mix: LayerMix, output: BiLMOutput) -> Tensor:
    values, mask = output.layers, output.mask
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    if network.config.mix.layer_norm == "none":
        mixed: Tensor = mix(values)
        return mixed
    # The norm uses statistics of the batch; one sentence at a time keeps sentences independent.
    single = [
        network.mix(values[:, row : row + 1], mask[row : row + 1])[0] for row in range(len(mask))
    ]
    return torch.cat(single)


def pool(vectors: Tensor, pooling: str) -> Tensor:
    """Pool word vectors (..., words, dim) into one vector (..., dim), zero without words.

    The pooling is "mean", "max" or "first-last". "first-last" concatenates the forward half of the
    last word vector and the backward half of the first word vector; each of them depends on the
    whole sentence.
    """
    if vectors.shape[-2] == 0:
        return vectors.new_zeros(*vectors.shape[:-2], vectors.shape[-1])
    return POOLINGS[pooling](vectors)


def pool_sentence(vectors: HostArray | Tensor, pooling: str) -> HostArray | Tensor:
    """Return the pooled vector of a sentence, an array or a tensor as its word vectors."""
    pooled = pool(torch.as_tensor(vectors), pooling)
    return pooled if isinstance(vectors, Tensor) else pooled.numpy()


def _first_last(vectors: Tensor) -> Tensor:
    half = vectors.shape[-1] // 2
    return torch.cat([vectors[..., -1, :half], vectors[..., 0, half:]], dim=-1)


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda vectors: vectors.mean(dim=-2),
    "max": lambda vectors: vectors.amax(dim=-2),
    "first-last": _first_last,
}
