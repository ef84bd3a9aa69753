"""Interface of the networks whose gradients are measured, and that of language models."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from elmo.kernels import recurrent_reference
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import RecurrentNetwork


class MeasuredNetwork(ABC):
    """A recurrent network on the CPU, whose layers can be run step by step.

    Hidden vectors of the softmax and losses are in single precision.
    """

    @abstractmethod
    def frozen_copy(self) -> Self:
        """Return a copy with constant weights and layers in double precision.

        In double precision, tiny norms can be squared.
        """

    @abstractmethod
    def trainable_copy(self) -> Self:
        """Return a copy whose weights have gradients."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """Return all weights."""

    @property
    @abstractmethod
    def n_layers(self) -> int:
        """Number of recurrent layers."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Precision of the layers."""

    @abstractmethod
    def zero_state(self, rows: int) -> RecurrentState:
        """Return a state of zeros, with the precision of the layers."""

    @abstractmethod
    def embed(self, index: Tensor) -> Tensor:
        """Return the input vectors of symbols, (time, batch, dim)."""

    @abstractmethod
    def step(
        self, layer: int, x: Tensor, h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run a step of a layer and return hidden state and cell, (batch, dim)."""

    def layer_output(self, layer: int, x: Tensor, hidden: Tensor) -> Tensor:
        """Return the output of a layer, which the next layer or the softmax reads.

        Args:
            layer: The layer; 0 is the lowest.
            x: Its input.
            hidden: Its hidden states.
        """
        return hidden

    @abstractmethod
    def run(self, index: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read symbols, (time, batch); return the output of the last layer and the final state."""

    @abstractmethod
    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return -ln p of each target, for outputs of the last layer, (predictions, dim)."""


class LanguageModelNetwork(MeasuredNetwork):
    """A recurrent language model."""

    def __init__(self, network: RecurrentNetwork, new_words: Sequence[str] = ()) -> None:
        """Measure a network, which is not copied.

        Args:
            network: The network.
            new_words: Words that are not symbols, whose ids continue those of the symbols.
        """
        self.network, self.new_words = network, new_words

    def frozen_copy(self) -> Self:
        """Return a copy with constant weights and layers in double precision."""
        network = self._copy().requires_grad_(False)
        network.layers.double()
        return type(self)(network, self.new_words)

    def trainable_copy(self) -> Self:
        """Return a copy whose weights have gradients."""
        return type(self)(self._copy().requires_grad_(), self.new_words)

    def _copy(self) -> RecurrentNetwork:
        return copy.deepcopy(self.network).cpu().eval()

    def parameters(self) -> list[nn.Parameter]:
        """Return all weights."""
        return list(self.network.parameters())

    @property
    def n_layers(self) -> int:
        """Number of recurrent layers."""
        return len(self.network.recurrent_layers())

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the layers."""
        return self.network.recurrent_layers()[0].weight_hh.dtype

    def zero_state(self, rows: int) -> RecurrentState:
        """Return a state of zeros."""
        zero = self.network.zero_state(rows)
        return RecurrentState(
            tuple(value.to(self.dtype) for value in zero.h),
            tuple(value.to(self.dtype) for value in zero.c),
        )

    def embed(self, index: Tensor) -> Tensor:
        """Return the input vectors of symbols, (time, batch, dim)."""
        vectors, index = self._vectors(index)
        return nn.functional.embedding(index, vectors)

    def _vectors(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input vectors of the distinct symbols of an index, and the index in them."""
        ids, index = torch.unique(index, return_inverse=True)
        n_symbols = self.network.config.n_symbols
        words = [self.new_words[number - n_symbols] for number in ids[ids >= n_symbols].tolist()]
        vectors = self.network.input_vectors(ids[ids < n_symbols])
        if words:
            vectors = torch.cat([vectors, self.network.new_vectors(words)])
        return vectors.to(self.dtype), index

    def step(
        self, layer: int, x: Tensor, h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run a step of a layer."""
        result = recurrent_reference.run(self.network.recurrent_layers()[layer].call(x[None], h, c))
        return result.h, result.c

    def run(self, index: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read symbols; return the output of the last layer and the final state."""
        output = self.network(*self._vectors(index), state)
        return output.hidden, output.state

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return -ln p of each target."""
        return self.network.losses(hidden.float(), targets, self.network.input_vectors())
