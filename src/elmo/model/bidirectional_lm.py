"""Training wrapper of the biLM: runs BPTT segments with dropout and state resets.

The sentences of the backward direction are passed in reversed, so both directions run from first to
last. The output vectors are the input of the softmax, which is not part of this module. Dropout is
applied in the same places as in bilm-tf; the other regularizers follow Merity et al. (2018).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import RegularizationConfig
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.model.bilm import BiLM
from elmo.model.lstm import LSTMLayer, LSTMState, StackCall, StepMask, run_stacks


class BidirectionalLM(nn.Module):
    """Maps a BPTT segment to the hidden vectors that predict its target words."""

    def __init__(
        self,
        *,
        bilm: BiLM,
        regularization: RegularizationConfig,
        kernels: Kernels = AUTO_KERNELS,
    ) -> None:
        """Wrap a biLM; the weights are shared, not copied.

        The kernels are not an argument of `forward`, because wrappers such as DDP only pass
        tensors.
        """
        super().__init__()
        self.bilm = bilm
        self.kernels = kernels
        self.regularization = regularization
        for stack in (bilm.forward_lstm, bilm.backward_lstm):
            for layer in stack.layers:
                assert isinstance(layer, LSTMLayer)
                layer.weight_drop = regularization.weight_drop

    def forward(
        self, rows: Tensor, index: Tensor, resets: Tensor | None, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run one BPTT segment.

        All arguments and results are tensors, as module wrappers such as DDP require.

        Args:
            rows: Distinct token rows of both directions, (distinct, columns).
            index: Index into `rows` for each position, (2, time, batch).
            resets: True where the state is set to zero before the step, (2, time, batch). None:
                never.
            h: Initial hidden state, (layers, 2, batch, projection).
            c: Initial cell state, (layers, 2, batch, cell).

        Returns:
            Hidden vectors, (2, time, batch, projection), and the state h and c after the segment.
        """
        table = self._drop_words(self.bilm.encoder(rows, kernels=self.kernels))
        _, n_steps, batch = index.shape
        mask = torch.ones(n_steps, batch, dtype=torch.bool, device=index.device)
        calls: list[StackCall] = []
        for direction, stack in enumerate((self.bilm.forward_lstm, self.bilm.backward_lstm)):
            direction_resets = None if resets is None else resets[direction]
            step_mask = StepMask(mask, [batch] * n_steps, direction_resets)
            tokens = functional.embedding(index[direction], table)
            calls.append(StackCall(stack, tokens, step_mask, reverse=False))
        outputs, state = run_stacks(
            calls, LSTMState(h, c), dropout=self._drop_input, kernels=self.kernels
        )
        top_layers = [
            self._drop(layers[-1], self.regularization.output_dropout) for layers in outputs
        ]
        return torch.stack(top_layers), state.h, state.c

    def _drop_words(self, table: Tensor) -> Tensor:
        """Apply embedding dropout: zero every occurrence of randomly chosen words."""
        if not self.training or not self.regularization.embedding_dropout:
            return table
        ones = torch.ones(table.shape[0], 1, device=table.device, dtype=table.dtype)
        return table * functional.dropout(ones, self.regularization.embedding_dropout)

    def _drop_input(self, x: Tensor, depth: int) -> Tensor:
        return self._drop(x, self.regularization.input_dropout if depth == 0 else None)

    def _drop(self, x: Tensor, rate: float | None) -> Tensor:
        """Apply dropout to a tensor (time, batch, dim). A rate of None means the default rate."""
        if rate is None:
            rate = self.regularization.dropout
        if not self.training or not rate:
            return x
        if not self.regularization.locked:
            return functional.dropout(x, rate)
        return x * functional.dropout(torch.ones_like(x[:1]), rate)
