"""Models with random weights, in the shape of other models."""

import dataclasses

import torch

from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import move
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork


def random_model(model: RecurrentModel | Pretrained, seed: int) -> RecurrentModel | Pretrained:
    """Return an untrained model with the architecture and the symbols of another one.

    Args:
        model: The other model.
        seed: Seed of the weights.
    """
    if isinstance(model, Pretrained):
        elmo = ELMoNetwork(config=model.config)
        with torch.no_grad():
            initialize(elmo, seed)
        weights = {name: value.detach() for name, value in elmo.state_dict().items()}
        return dataclasses.replace(model, weights=weights)
    network = RecurrentNetwork(config=model.network.config)
    network.initialize(seed)
    network.set_symbols(model.symbols)
    device = next(model.network.parameters()).device
    move(network.eval().requires_grad_(False), device)
    return RecurrentModel(network, model.symbols, {})
