"""The mixes of a model as it is read: initial ones, and those a user asks for."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.config import LayerNorm, MixConfig
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained


def initial_mixes(n_layers: int, n_mixes: int = 1) -> dict[str, Tensor]:
    """Give the mixes of a model that came without any."""
    mixes: dict[str, Tensor] = {}
    for number in range(n_mixes):
        mixes[f"mixes.{number}.weights"] = torch.zeros(n_layers)
        mixes[f"mixes.{number}.gamma"] = torch.ones(1)
    return mixes


def with_mixes(
    model: Pretrained,
    *,
    n_mixes: int | None,
    layer_norm: bool | LayerNorm | None,
    top_only: bool | None,
    fixed: Sequence[float] | None,
) -> Pretrained:
    """Give a model the mixes asked for; those it came with are kept as far as they go.

    Args:
        model: as it was read.
        n_mixes: how many; None for as many as it has.
        layer_norm: a program's layer norm, True for AllenNLP's; None for what is recorded.
        top_only: scale the top layer alone; None for what is recorded.
        fixed: weights before the softmax, in place of the model's own.
    """
    recorded = model.config.mix
    if isinstance(layer_norm, bool):
        layer_norm = "allennlp" if layer_norm else "none"
    if layer_norm not in (None, "none", "allennlp", "bilm-tf"):
        raise ConfigError(f"do_layer_norm is {layer_norm!r}; expected True, False or bilm-tf")
    mix = MixConfig(
        recorded.n_mixes if n_mixes is None else n_mixes,
        layer_norm or recorded.layer_norm,
        recorded.top_only if top_only is None else top_only,
    )
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
