"""Selection of the layers that `encode` returns, and pooling of words into sentence vectors."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from elmo.config import Layers
from elmo.errors import ConfigError
from elmo.model.bilm import BiLMOutput
from elmo.model.layer_mix import LayerMix
from elmo.model.network import ELMoNetwork

NAMED_LAYERS: dict[str, Callable[[BiLMOutput], Tensor]] = {
    "average": lambda output: output.average(),
    "top": lambda output: output.layer(-1),
    "all": lambda output: output.layers,
}


def layer_selector(network: ELMoNetwork, layers: Layers) -> Callable[[BiLMOutput], Tensor]:
    """Return the function that selects the requested layers of an output.

    Args:
        network: Network that computes the output.
        layers: "average", "mix", "top", "all" or a layer number.

    Returns:
        Function from an output to (batch, time, dim), or (layers, batch, time, dim) for "all".

    Raises:
        ConfigError: The layers are unknown, or "mix" without a trained mix.
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
    """Return the number of a single layer, given as an integer or string; None for a name."""
    numbers = range(network.config.n_layers)
    number = as_integer(layers)
    if isinstance(layers, str):
        if layers in (*NAMED_LAYERS, "mix"):
            return None
        number = {str(known): known for known in numbers}.get(layers)
    if number is None or number not in numbers:
        raise ConfigError(
            f"Unknown layers {layers!r}. Expected average, mix, top, all or a number from 0 to "
            f"{numbers[-1]}."
        )
    return number


def as_integer(value: Any) -> int | None:
    """Return an integer of any library as `int`; None for other types, including bool."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def needs_boundaries(network: ELMoNetwork, layers: Layers) -> bool:
    """Whether the layers depend on the vectors of the boundary tokens.

    Layer norm is computed over all positions of a sentence, including the boundary tokens.
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
    """Reduce the words of a sentence to one vector; an empty sentence results in zeros.

    Args:
        vectors: (..., words, dim).
        pooling: "mean", "max", or "first-last": the forward half of the last word concatenated
            with the backward half of the first word, which have both read the whole sentence.

    Returns:
        (..., dim).
    """
    if vectors.shape[-2] == 0:
        return vectors.new_zeros(*vectors.shape[:-2], vectors.shape[-1])
    return POOLINGS[pooling](vectors)


def _first_last(vectors: Tensor) -> Tensor:
    half = vectors.shape[-1] // 2
    return torch.cat([vectors[..., -1, :half], vectors[..., 0, half:]], dim=-1)


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda vectors: vectors.mean(dim=-2),
    "max": lambda vectors: vectors.amax(dim=-2),
    "first-last": _first_last,
}
