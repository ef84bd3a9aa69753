"""The biLM as it is trained: two sets of lanes, each walked forward, with dropouts and resets.

The backward side gets its sentences already reversed, so both directions run the same way. What
comes out are the vectors the softmax predicts the next word from; the softmax is not in here.
Dropout stands where bilm-tf has it; the further regularisers are those of Merity et al. (2018).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import RegularizationConfig
from elmo.model.bilm import BiLM
from elmo.model.lstm import LSTMLayer, LSTMState, Side, Steps, run_stacks


class LanguageModel(nn.Module):
    """Windows of word numbers to the vectors that predict their targets."""

    def __init__(self, *, bilm: BiLM, regularization: RegularizationConfig) -> None:
        """Wrap a biLM; its weights are shared, not copied.

        Args:
            bilm: the model to train.
            regularization: regularizers.
        """
        super().__init__()
        self.bilm = bilm
        self.regularization = regularization
        for stack in (bilm.forward_lstm, bilm.backward_lstm):
            for layer in stack.layers:
                assert isinstance(layer, LSTMLayer)
                layer.weight_drop = regularization.weight_drop

    def forward(
        self, rows: Tensor, index: Tensor, resets: Tensor | None, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run a window; plain tensors in and out, as wrappers of modules want them.

        Args:
            rows: distinct token rows of both directions, (distinct, columns).
            index: which row stands where, (2, time, batch).
            resets: where the state is zero before the step, (2, time, batch); None for nowhere.
            h: state, (layers, 2, batch, projection).
            c: state, (layers, 2, batch, cell).

        Returns:
            Vectors (2, time, batch, projection), and the state after the window.
        """
        table = self._drop_types(self.bilm.encoder(rows))
        _, n_steps, batch = index.shape
        mask = torch.ones(n_steps, batch, dtype=torch.bool, device=index.device)
        sides: list[Side] = []
        for number, stack in enumerate((self.bilm.forward_lstm, self.bilm.backward_lstm)):
            steps = Steps(mask, [batch] * n_steps, None if resets is None else resets[number])
            tokens = functional.embedding(index[number], table)
            sides.append(Side(stack, tokens, steps, reverse=False))
        outputs, state = run_stacks(sides, LSTMState(h, c), drop=self._drop_input)
        tops = [self._drop(layers[-1], self.regularization.output_dropout) for layers in outputs]
        return torch.stack(tops), state.h, state.c

    def _drop_types(self, table: Tensor) -> Tensor:
        """Leave out all places of some of the words."""
        if not self.training or not self.regularization.embedding_dropout:
            return table
        ones = torch.ones(table.shape[0], 1, device=table.device, dtype=table.dtype)
        return table * functional.dropout(ones, self.regularization.embedding_dropout)

    def _drop_input(self, x: Tensor, depth: int) -> Tensor:
        return self._drop(x, self.regularization.input_dropout if depth == 0 else None)

    def _drop(self, x: Tensor, share: float | None) -> Tensor:
        """Apply dropout to (time, batch, dim), the general one where no other is set."""
        if share is None:
            share = self.regularization.dropout
        if not self.training or not share:
            return x
        if not self.regularization.locked:
            return functional.dropout(x, share)
        return x * functional.dropout(torch.ones_like(x[:1]), share)
