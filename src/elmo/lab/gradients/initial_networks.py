"""Newly initialized networks whose gradients are compared."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
from torch import nn

from elmo.config.language_models import Cell, RecurrentConfig, RecurrentModelConfig
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbols import Ids, Symbols

Scheme = Literal["uniform", "orthogonal", "identity"]
MakeNetwork = Callable[[], RecurrentNetwork]

FORGET_BIASES = (0.0, 1.0, 2.0, 4.0)
# Factor of orthogonal recurrent weights that is large enough for gradients to explode.
LARGE_GAIN = 2.0


class InitialNetworks:
    """Creates networks of the same size with different cells and initial weights.

    All are drawn from the same seed, so two of them differ only in what their names say.
    """

    def __init__(self, config: RecurrentModelConfig, symbols: Symbols, ids: Ids, seed: int) -> None:
        """Create networks for the symbols of a text.

        Args:
            config: Config of the network that all others are derived from.
            symbols: Symbols of the networks.
            ids: Symbol ids of the text, for the initial bias of the softmax.
            seed: Seed of the weights.
        """
        self.config, self.symbols, self.seed = config, symbols, seed
        self.counts = torch.from_numpy(ids).long().bincount(minlength=len(symbols))

    def network(self, shape: RecurrentConfig | None = None) -> RecurrentNetwork:
        """Return a network as at the beginning of training.

        Args:
            shape: Its architecture. Default: that of the config.
        """
        config = dataclasses.replace(self.config, network=shape or self.config.network)
        network = RecurrentNetwork(config=config)
        network.initialize(self.seed)
        network.set_symbols(self.symbols)
        network.center_vectors()
        network.set_bias(self.counts)
        return network.eval()

    def shape(self, cell: Cell, nonlinearity: Literal["tanh", "relu"] = "tanh") -> RecurrentConfig:
        """Return the architecture with another cell, and without options of one cell only."""
        shape = self.config.network
        if cell == shape.cell and nonlinearity == shape.nonlinearity:
            return shape
        return dataclasses.replace(
            shape,
            cell=cell,
            nonlinearity=nonlinearity,
            projection_dim=None,
            mogrifier_rounds=0,
            mogrifier_rank=None,
        )

    def cells(self) -> Iterator[tuple[str, MakeNetwork]]:
        """Yield the names of networks with all cells, and functions that create them."""
        cells: list[Cell] = ["rnn", "gru", "lstm"]
        if self.config.network.cell == "lstmp":
            cells.append("lstmp")
        for cell in cells:
            shape = self.shape(cell)
            yield initial_name(shape), partial(self.network, shape)

    def forget_biases(self) -> Iterator[tuple[str, MakeNetwork]]:
        """Yield LSTMs with several biases of the forget gate."""
        cell = self.config.network.cell
        shape = self.shape(cell if cell in ("lstm", "lstmp") else "lstm")

        def make(bias: float) -> RecurrentNetwork:
            network = self.network(shape)
            set_forget_bias(network, bias)
            return network

        for bias in FORGET_BIASES:
            yield f"{shape.cell}, forget bias {bias:g}", partial(make, bias)

    def recurrent_weights(self) -> Iterator[tuple[str, MakeNetwork]]:
        """Yield networks with several initializations of the recurrent weights."""
        rows: list[tuple[RecurrentConfig, Scheme, float]] = [
            (self.shape("rnn"), "uniform", 1.0),
            (self.shape("rnn"), "orthogonal", 1.0),
            (self.shape("rnn"), "identity", 1.0),
            (self.shape("rnn"), "orthogonal", LARGE_GAIN),
            (self.shape("rnn", "relu"), "identity", 1.0),
        ]
        gated = self.config.network.cell if self.config.network.cell != "rnn" else "lstm"
        schemes: tuple[Scheme, ...] = ("uniform", "orthogonal", "identity")
        rows += [(self.shape(gated), scheme, 1.0) for scheme in schemes]

        def make(shape: RecurrentConfig, scheme: Scheme, gain: float) -> RecurrentNetwork:
            network = self.network(shape)
            set_recurrent_weights(network, scheme, gain, self.seed)
            return network

        for shape, scheme, gain in rows:
            factor = "" if gain == 1.0 else f" x {gain:g}"
            yield (
                f"{cell_name(shape)}, {scheme}{factor}",
                partial(make, shape, scheme, gain),
            )


def initial_name(shape: RecurrentConfig) -> str:
    """Return the name of a network with the weights at the beginning of training."""
    return f"{cell_name(shape)}, initial"


def cell_name(shape: RecurrentConfig) -> str:
    """Return the cell of a network, with its activation function if it is not tanh."""
    return "rnn with ReLU" if shape.nonlinearity == "relu" else shape.cell


@torch.no_grad()
def set_forget_bias(network: RecurrentNetwork, bias: float) -> None:
    """Set the bias of the forget gates of LSTMs."""
    for layer in network.recurrent_layers():
        layer.bias_ih.chunk(4)[1].fill_(bias)
        layer.bias_hh.chunk(4)[1].zero_()


@torch.no_grad()
def set_recurrent_weights(
    network: RecurrentNetwork, scheme: Scheme, gain: float, seed: int
) -> None:
    """Replace the recurrent weights of all layers, gate by gate.

    Args:
        network: The network.
        scheme: "uniform" between -1/sqrt(units) and 1/sqrt(units), "orthogonal" or "identity".
        gain: Factor of the weights.
        seed: Seed of random weights.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in network.recurrent_layers():
        for weights in torch.split(layer.weight_hh, layer.hidden_dim):
            if scheme == "uniform":
                bound = 1.0 / math.sqrt(layer.hidden_dim)
                weights.uniform_(-bound, bound, generator=generator)
            elif scheme == "orthogonal":
                weights.copy_(nn.init.orthogonal_(torch.empty_like(weights), generator=generator))
            else:
                weights.copy_(torch.eye(*weights.shape))
            weights.mul_(gain)
