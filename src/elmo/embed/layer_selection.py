"""What is kept of a pass over sentences: which layers, and with pooling one vector a sentence."""

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

NAMED: dict[str, Callable[[BiLMOutput], Tensor]] = {
    "average": lambda output: output.average(),
    "top": lambda output: output.layer(-1),
    "all": lambda output: output.layers,
}


def choose_layers(network: ELMoNetwork, layers: Layers) -> Callable[[BiLMOutput], Tensor]:
    """Give the function that keeps what was asked for: (batch, time, dim), or all layers of it."""
    number = _number(network, layers)
    if number is not None:
        return lambda output: output.layer(number)
    if layers == "mix":
        return partial(_mix, network, _trained_mix(network))
    return NAMED[str(layers)]


def lstm_layers(network: ELMoNetwork, layers: Layers) -> int:
    """Give how many LSTM layers what was asked for depends on."""
    number = _number(network, layers)
    return network.config.lstm.n_layers if number is None else number


def _number(network: ELMoNetwork, layers: Layers) -> int | None:
    """Give the number of a single layer, which may be written out; None for what has a name."""
    numbers = range(network.config.n_layers)
    number = whole(layers)
    if isinstance(layers, str):
        if layers in (*NAMED, "mix"):
            return None
        number = {str(known): known for known in numbers}.get(layers)
    if number is None or number not in numbers:
        raise ConfigError(
            f"layers is {layers!r}; expected average, mix, top, all or a number from 0 to "
            f"{numbers[-1]}"
        )
    return number


def whole(value: Any) -> int | None:
    """Give a whole number, of any library, as Python's own; None for all else, True included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def needs_boundaries(network: ELMoNetwork, layers: Layers) -> bool:
    """Tell whether marks count too: a norm over all positions of a sentence has them in it."""
    return layers == "mix" and network.config.mix.layer_norm != "none"


def _trained_mix(network: ELMoNetwork) -> LayerMix:
    mix = network.mixes[0] if len(network.mixes) else None
    if not isinstance(mix, LayerMix) or not mix.is_trained():
        raise ConfigError(
            'layers is "mix", but the model has no trained mix: use "average", or train the mix in '
            "a task first"
        )
    return mix


def _mix(network: ELMoNetwork, mix: LayerMix, output: BiLMOutput) -> Tensor:
    values, mask = output.layers, output.mask
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    if network.config.mix.layer_norm == "none":
        mixed: Tensor = mix(values)
        return mixed
    # Its statistics are those of a batch: one sentence at a time, lest neighbours matter.
    single = [
        network.mix(values[:, row : row + 1], mask[row : row + 1])[0] for row in range(len(mask))
    ]
    return torch.cat(single)


def pool(vectors: Tensor, pooling: str) -> Tensor:
    """Reduce the words of a sentence to one vector; no words give zeros.

    Args:
        vectors: (..., words, dim).
        pooling: "mean", "max" or "first-last": the forward half at the last word beside the
            backward half at the first, each having read the whole sentence.
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
