"""Models with random weights, in the shape of other models."""

import copy
import dataclasses

import torch
from torch import nn

from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import move
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.units.load_model import Loaded
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork
from elmo.tasks.core.task_model import TaskModel
from elmo.tasks.fitted.trained_model import TrainedModel


def random_model(model: Loaded, seed: int) -> Loaded:
    """Return an untrained model with the architecture and the symbols of another one.

    The encoder of a task model is untrained, but reads the same input: the mix of ELMo layers, word
    vectors and characters stay as they are.

    Args:
        model: The other model.
        seed: Seed of the weights.
    """
    if isinstance(model, TrainedModel):
        return _with_random_encoder(model, seed)
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


def _with_random_encoder(model: TrainedModel, seed: int) -> TrainedModel:
    trained = model.built.model
    encoder = copy.deepcopy(trained.encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in encoder.modules():
            if isinstance(module, nn.LSTM | nn.Linear):
                module.reset_parameters()
    network = TaskModel(
        features=trained.features, encoder=encoder, head=trained.head, mix_penalty=0.0
    )
    built = dataclasses.replace(model.built, model=network.train(trained.training))
    return TrainedModel(model.config, model.task, model.labels, built)
