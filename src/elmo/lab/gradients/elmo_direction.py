"""A direction of an ELMo as a network whose gradients are measured."""

import copy
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.kernels import lstm_reference
from elmo.lab.gradients.measured_network import MeasuredNetwork
from elmo.lab.recurrent_layer import RecurrentState
from elmo.model.losses import Softmax, exact_losses
from elmo.model.lstm import LSTMLayer, LSTMStack, StepMask
from elmo.model.token_encoder import TokenEncoder


class ElmoDirectionNetwork(MeasuredNetwork):
    """Token encoder, LSTMs of one direction, and softmax.

    Both directions read in the order of their steps, so the backward one reads reversed text.
    """

    def __init__(
        self, encoder: TokenEncoder, stack: LSTMStack, softmax: Softmax, token_rows: Tensor
    ) -> None:
        """Measure the modules, which are not copied.

        Args:
            encoder: Token encoder.
            stack: LSTMs of a direction.
            softmax: Softmax of the language model.
            token_rows: Input of the encoder for the tokens of the text, (tokens, columns).
        """
        self.encoder, self.stack, self.softmax = encoder, stack, softmax
        self.token_rows = token_rows

    def frozen_copy(self) -> Self:
        """Return a copy with constant weights and layers in double precision."""
        frozen = self._copy(requires_grad=False)
        frozen.stack.double()
        return frozen

    def trainable_copy(self) -> Self:
        """Return a copy whose weights have gradients."""
        return self._copy(requires_grad=True)

    def _copy(self, *, requires_grad: bool) -> Self:
        copied = type(self)(
            copy.deepcopy(self.encoder).cpu(),
            copy.deepcopy(self.stack).cpu(),
            copy.deepcopy(self.softmax).cpu(),
            self.token_rows,
        )
        for value in copied.parameters():
            value.requires_grad_(requires_grad)
        return copied

    def parameters(self) -> list[nn.Parameter]:
        """Return all weights."""
        modules = (self.encoder, self.stack, self.softmax)
        return [value for module in modules for value in module.parameters()]

    @property
    def n_layers(self) -> int:
        """Number of recurrent layers."""
        return len(self.stack.layers)

    def _layer(self, number: int) -> LSTMLayer:
        layer = self.stack.layers[number]
        assert isinstance(layer, LSTMLayer)
        return layer

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the layers."""
        return self._layer(0).weight_hh.dtype

    def zero_state(self, rows: int) -> RecurrentState:
        """Return a state of zeros."""
        config, layers = self._layer(0).config, range(self.n_layers)
        return RecurrentState(
            tuple(torch.zeros(rows, config.projection_dim, dtype=self.dtype) for _ in layers),
            tuple(torch.zeros(rows, config.cell_dim, dtype=self.dtype) for _ in layers),
        )

    def embed(self, index: Tensor) -> Tensor:
        """Return the vectors of tokens, (time, batch, dim). Each distinct token is encoded once."""
        distinct, places = torch.unique(index, return_inverse=True)
        vectors: Tensor = self.encoder(self.token_rows[distinct])
        return functional.embedding(places, vectors.to(self.dtype))

    def step(
        self, layer: int, x: Tensor, h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run a step of a layer.

        The kernels return copies of the cells. Here the hidden state is computed from the returned
        cell, so that gradients of the cell contain the path through the hidden state.
        """
        assert c is not None
        weights = self._layer(layer)
        config = weights.config
        product = functional.linear(x, weights.weight_ih, weights.bias_with_forget())
        i, f, g, o = (product + functional.linear(h, weights.weight_hh)).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        if config.cell_clip is not None:
            c = c.clamp(-config.cell_clip, config.cell_clip)
        h = o.sigmoid() * c.tanh()
        if weights.weight_hr is not None:
            h = functional.linear(h, weights.weight_hr)
            if config.projection_clip is not None:
                h = h.clamp(-config.projection_clip, config.projection_clip)
        return h, c

    def layer_output(self, layer: int, x: Tensor, hidden: Tensor) -> Tensor:
        """Return the output of a layer; from the second layer on, its input is added."""
        return hidden + x if self.stack.residual and layer > 0 else hidden

    def run(self, index: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read tokens; return the output of the last layer and the final state."""
        x = self.embed(index)
        final_h: list[Tensor] = []
        final_c: list[Tensor] = []
        for number in range(self.n_layers):
            mask = StepMask(torch.ones(x.shape[:2], dtype=torch.bool), None)
            layer_state = state.h[number], state.c[number]
            call = self._layer(number).kernel_call(x, *layer_state, mask, reverse=False)
            ((hidden, h, c),) = lstm_reference.lstm([call])
            x = self.layer_output(number, x, hidden)
            final_h.append(h)
            final_c.append(c)
        return x, RecurrentState(tuple(final_h), tuple(final_c))

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return -ln p of each target."""
        return exact_losses(self.softmax, hidden.float(), targets)
