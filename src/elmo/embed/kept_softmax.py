"""Softmax weights of an `ELMo`, which its vectors do not depend on.

By default they are kept outside the module, on the CPU, so that `state_dict()`, `parameters()` and
GPUs do not contain them. Saving the model and scoring words use them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from elmo.config import ModelConfig
from elmo.formats.pretrained import Pretrained
from elmo.model.losses import Softmax
from elmo.model.network import ELMoNetwork, make_softmax

PREFIX = "softmax."
"""Prefix of the softmax weights in the names of `ELMoNetwork`."""


class KeptSoftmax:
    """Softmax weights outside of the network, by their names in `ELMoNetwork`; {} if none."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        """Keep the softmax weights among all weights of a network."""
        self.weights = {
            name: value.detach() for name, value in weights.items() if name.startswith(PREFIX)
        }

    def module(self, config: ModelConfig) -> Softmax | None:
        """Return a softmax that shares the weights, or None if there are none."""
        if not self.weights:
            return None
        with torch.device("meta"):
            softmax = make_softmax(config)
        assert softmax is not None
        weights = {name.removeprefix(PREFIX): value for name, value in self.weights.items()}
        softmax.load_state_dict(weights, assign=True)
        return softmax.requires_grad_(False)

    def load_from(
        self,
        network: nn.Module,
        state_dict: dict[str, Tensor],
        prefix: str,
        metadata: Mapping[str, object],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_messages: list[str],
    ) -> None:
        """Take the softmax weights of a state dict, as a `load_state_dict` pre-hook."""
        if not any(prefix + name in state_dict for name in self.weights):
            return
        for name, current in self.weights.items():
            value = state_dict.pop(prefix + name, None)
            if value is None:
                missing_keys.append(prefix + name)
                continue
            if value.shape != current.shape:
                error_messages.append(
                    f"size mismatch for {prefix}{name}: the checkpoint has shape "
                    f"{tuple(value.shape)}, the model has {tuple(current.shape)}."
                )
                continue
            # A copy, because the caller may change the state dict later.
            self.weights[name] = value.detach().to(current.device, current.dtype, copy=True)


def load_network(
    pretrained: Pretrained,
    kept: KeptSoftmax,
    *,
    requires_grad: bool,
    dropout: float,
    keep_boundaries: bool,
    fixed_mix: Sequence[float] | None,
) -> ELMoNetwork:
    """Return the network of a model, without the softmax if it is kept outside.

    `requires_grad` trains the biLM and the softmax; `ELMoNetwork` describes the other options.
    """
    config = pretrained.config
    if kept.weights:
        config = replace(config, n_softmax_words=0, softmax_cutoffs=())
    fixed = None if fixed_mix is None else [float(value) for value in fixed_mix]
    with torch.device("meta"):
        network = ELMoNetwork(
            config=config, dropout=dropout, keep_boundaries=keep_boundaries, fixed_mix=fixed
        )
    network.load_state_dict(
        {name: value for name, value in pretrained.weights.items() if name not in kept.weights},
        assign=True,
    )
    for part in (network.bilm, network.softmax):
        if part is not None:
            part.requires_grad_(requires_grad)
    return network


def fill_missing_softmax(
    network: nn.Module, state_dict: dict[str, Tensor], prefix: str, *rest: object
) -> None:
    """Add the current softmax weights to a state dict without softmax.

    This is a `load_state_dict` pre-hook of a network that includes its softmax: a checkpoint of a
    model loaded without the softmax can be loaded too.
    """
    if not any(name.startswith(prefix + PREFIX) for name in state_dict):
        for name, value in network.state_dict().items():
            if name.startswith(PREFIX):
                state_dict[prefix + name] = value
