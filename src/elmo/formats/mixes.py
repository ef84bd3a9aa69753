"""Layer mixes of a loaded model: initial values, and changes requested by the user."""

import dataclasses
import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.config import LayerNorm, MixConfig
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained

logger = logging.getLogger(__name__)


def initial_mixes(n_layers: int, n_mixes: int = 1) -> dict[str, Tensor]:
    """Return the parameters of untrained layer mixes: equal weights and a gamma of 1."""
    mixes: dict[str, Tensor] = {}
    for number in range(n_mixes):
        mixes[f"mixes.{number}.weights"] = torch.zeros(n_layers)
        mixes[f"mixes.{number}.gamma"] = torch.ones(1)
    return mixes


def has_trained_mixes(model: Pretrained) -> bool:
    """Whether any layer mix of a model differs from the unweighted mean of the layers."""
    initial = initial_mixes(model.config.n_layers, model.config.mix.n_mixes)
    return any(not torch.equal(model.weights[name], value) for name, value in initial.items())


def with_mixes(
    model: Pretrained,
    *,
    n_mixes: int = 1,
    layer_norm: bool | LayerNorm = False,
    top_only: bool = False,
    fixed: Sequence[float] | None = None,
) -> Pretrained:
    """Return a copy of the model with the requested number and type of layer mixes.

    The first `n_mixes` mixes of the model are used; missing ones are added untrained. Layer norm is
    "allennlp" (or True), "bilm-tf" or "none"; False uses the setting the model was trained with.
    `fixed` are mix weights, before the softmax, that replace the model's own.
    """
    stored = model.config.mix
    if layer_norm is False:
        layer_norm = stored.layer_norm
    elif layer_norm is True:
        layer_norm = "allennlp"
    if layer_norm not in ("none", "allennlp", "bilm-tf"):
        raise ConfigError(
            f"do_layer_norm is {layer_norm!r}, expected True, False, 'allennlp', 'bilm-tf' or "
            "'none'."
        )
    if n_mixes < stored.n_mixes:
        logger.warning(
            "%s: the model has %d mixes, but only the first %d are used. Set "
            "num_output_representations=%d to use all of them.",
            model.origin,
            stored.n_mixes,
            n_mixes,
            stored.n_mixes,
        )
    mix = MixConfig(n_mixes, layer_norm, top_only or stored.top_only)
    config = dataclasses.replace(model.config, mix=mix)
    if fixed is not None and len(fixed) != config.n_layers:
        raise ConfigError(
            f"scalar_mix_parameters has {len(fixed)} weights, but the model has {config.n_layers} "
            "layers."
        )
    mixes = initial_mixes(config.n_layers, mix.n_mixes)
    for name in mixes:
        if name in model.weights:
            mixes[name] = model.weights[name].clone()
        if fixed is not None and name.endswith(".weights"):
            mixes[name] = torch.tensor(fixed, dtype=torch.float32)
    other_weights = {
        name: value for name, value in model.weights.items() if not name.startswith("mixes.")
    }
    return dataclasses.replace(model, config=config, weights={**other_weights, **mixes})
