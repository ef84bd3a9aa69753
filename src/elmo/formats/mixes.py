"""The mixes of a model as it is read: initial ones, and those a user asks for."""

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
    """Give the mixes of a model that came without any."""
    mixes: dict[str, Tensor] = {}
    for number in range(n_mixes):
        mixes[f"mixes.{number}.weights"] = torch.zeros(n_layers)
        mixes[f"mixes.{number}.gamma"] = torch.ones(1)
    return mixes


def has_trained_mixes(model: Pretrained) -> bool:
    """Whether a mix of a model is anything else than the plain mean of its layers."""
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
    """Give a model the mixes asked for; those it came with are kept as far as they go.

    A mix was trained with or without its layer norm, so False leaves that as it is recorded.

    Args:
        model: as it was read.
        n_mixes: how many; the model's own come first.
        layer_norm: a program's layer norm, True for AllenNLP's, "none" to take one away.
        top_only: scale the top layer alone.
        fixed: weights before the softmax, in place of the model's own.
    """
    recorded = model.config.mix
    if layer_norm is False:
        layer_norm = recorded.layer_norm
    elif layer_norm is True:
        layer_norm = "allennlp"
    if layer_norm not in ("none", "allennlp", "bilm-tf"):
        raise ConfigError(
            f"do_layer_norm is {layer_norm!r}; expected True, False, allennlp, bilm-tf or none"
        )
    if n_mixes < recorded.n_mixes:
        logger.warning(
            "%s: it comes with %d mixes, of which %d are used: num_output_representations=%d keeps "
            "them all",
            model.origin,
            recorded.n_mixes,
            n_mixes,
            recorded.n_mixes,
        )
    mix = MixConfig(n_mixes, layer_norm, top_only or recorded.top_only)
    config = dataclasses.replace(model.config, mix=mix)
    if fixed is not None and len(fixed) != config.n_layers:
        raise ConfigError(
            f"scalar_mix_parameters has {len(fixed)} weights, the model {config.n_layers} layers"
        )
    mixes = initial_mixes(config.n_layers, mix.n_mixes)
    for name in mixes:
        if name in model.weights:
            mixes[name] = model.weights[name].clone()
        if fixed is not None and name.endswith(".weights"):
            mixes[name] = torch.tensor(fixed, dtype=torch.float32)
    rest = {name: value for name, value in model.weights.items() if not name.startswith("mixes.")}
    return dataclasses.replace(model, config=config, weights={**rest, **mixes})
