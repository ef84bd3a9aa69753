"""Bidirectional language model (biLM), which maps token rows to the vectors of every layer.

The two directions share only the token encoder. The boundary tokens `<S>` and `</S>` are ordinary
tokens here: the caller includes them in the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import ModelConfig
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.model.lstm import LSTMStack, LSTMState, StackCall, StepMask, run_stacks
from elmo.model.token_encoder import TokenEncoder


@dataclass(frozen=True)
class BiLMOutput:
    """Result of one forward pass. It includes the boundary tokens unless `words_only` was set.

    Attributes:
        direction_pairs: Forward and backward vectors of each layer, each (time, batch,
            projection). For layer 0, both are the token vectors. Zero at padding, except that with
            `words_only` the end-of-sentence tokens of shorter rows are not set to zero.
        mask: True at real positions, (batch, time).
        state: Final state of each direction.
    """

    direction_pairs: Sequence[tuple[Tensor, Tensor]]
    mask: Tensor
    state: LSTMState

    @property
    def layers(self) -> Tensor:
        """All layers stacked, (layers + 1, batch, time, 2 * projection)."""
        return torch.stack([torch.cat(pair, dim=2) for pair in self.direction_pairs]).transpose(
            1, 2
        )

    def layer(self, number: int) -> Tensor:
        """Return one layer, (batch, time, 2 * projection)."""
        return torch.cat(self.direction_pairs[number], dim=2).transpose(0, 1)

    def average(self) -> Tensor:
        """Return the mean of all layers, (batch, time, 2 * projection), in float32 or float64."""
        tokens, _ = self.direction_pairs[0]
        wide = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
        total, width = torch.cat([wide, wide], dim=2), wide.shape[2]
        for forward, backward in self.direction_pairs[1:]:
            total.narrow(2, 0, width).add_(forward)
            total.narrow(2, width, width).add_(backward)
        return total.div_(len(self.direction_pairs)).transpose(0, 1)


class BiLM(nn.Module):
    """Token encoder and two LSTM stacks (Peters et al., 2018, section 3.1)."""

    def __init__(self, *, config: ModelConfig) -> None:
        """Create the network without weights; load a state dict or call `initialize`."""
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config=config.encoder, output_dim=config.lstm.projection_dim)
        self.forward_lstm = LSTMStack(config=config.lstm)
        self.backward_lstm = LSTMStack(config=config.lstm)

    def forward(
        self,
        rows: Tensor,
        index: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
        lengths: Sequence[int] | None = None,
        token_vectors: Tensor | None = None,
        words_only: bool = False,
        n_layers: int | None = None,
        *,
        kernels: Kernels = AUTO_KERNELS,
    ) -> BiLMOutput:
        """Encode the tokens and run both LSTM stacks over them.

        Args:
            rows: Distinct token rows, (distinct, columns). Ignored if `token_vectors` is given.
            index: Index into `rows` for each position, (batch, time). Any valid index at padding.
            mask: True at real positions, (batch, time), padding on the right. Default: no padding.
            state: Initial state. Default: zeros.
            lengths: Number of tokens in each sentence, if known on the host. Padding is then not
                computed.
            token_vectors: Precomputed token vectors, used instead of `rows`, (distinct, dim).
            words_only: Whether to omit the boundary tokens, so that the output has time - 2
                positions. Each direction then skips the boundary token that it would read last,
                because no word vector depends on it. The final state cannot be carried to another
                call.
            n_layers: Number of LSTM layers to run, from the bottom. Default: all.
            kernels: Implementation of all operations.

        Returns:
            Layers, mask and final state.
        """
        table = self.encoder(rows, kernels=kernels) if token_vectors is None else token_vectors
        return self.contextualize(
            table, index, mask, state, lengths, words_only, n_layers, kernels=kernels
        )

    def contextualize(
        self,
        table: Tensor,
        index: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
        lengths: Sequence[int] | None = None,
        words_only: bool = False,
        n_layers: int | None = None,
        *,
        kernels: Kernels = AUTO_KERNELS,
    ) -> BiLMOutput:
        """Run both LSTM stacks over distinct token vectors, (distinct, dim); see `forward`."""
        if mask is None:
            mask = torch.ones_like(index, dtype=torch.bool)
            lengths = [index.shape[1]] * index.shape[0]
        if state is None:
            state = LSTMState.zeros(
                self.config.lstm, index.shape[0], device=table.device, dtype=table.dtype
            )
        if lengths is None or list(lengths) == sorted(lengths, reverse=True):
            return self._run(table, index, mask, state, lengths, words_only, n_layers, kernels)
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        permutation = torch.tensor(order, device=index.device)
        sorted_lengths = [lengths[row] for row in order]
        rows = (index[permutation], mask[permutation], state.select(permutation))
        output = self._run(table, *rows, sorted_lengths, words_only, n_layers, kernels)
        inverse = permutation.argsort()
        direction_pairs = [
            (forward[:, inverse], backward[:, inverse])
            for forward, backward in output.direction_pairs
        ]
        return BiLMOutput(direction_pairs, output.mask[inverse], output.state.select(inverse))

    def _run(
        self,
        table: Tensor,
        index: Tensor,
        mask: Tensor,
        state: LSTMState,
        lengths: Sequence[int] | None,
        words_only: bool,
        n_layers: int | None,
        kernels: Kernels,
    ) -> BiLMOutput:
        """Run both LSTM stacks. The lengths, if given, must be in decreasing order."""
        positions = index.t().contiguous()  # (time, batch)
        n_active = None if lengths is None else _n_active(lengths, index.shape[1])
        step_mask = StepMask(mask.t(), n_active)
        forward_index, backward_index = positions, positions
        if words_only:
            # Each direction reads one position less. The forward direction skips the last position
            # of a row and the backward direction the first, so both have the same mask.
            step_mask = StepMask(mask.t()[1:], None if n_active is None else n_active[1:])
            forward_index, backward_index = positions[:-1], positions[1:]
        calls = [
            StackCall(self.forward_lstm, table, step_mask, reverse=False, index=forward_index),
            StackCall(self.backward_lstm, table, step_mask, reverse=True, index=backward_index),
        ]
        (forward, backward), final = run_stacks(calls, state, n_layers=n_layers, kernels=kernels)
        if words_only:
            forward, backward = [x[1:] for x in forward], [x[:-1] for x in backward]
            positions, mask = positions[1:-1], mask[:, 2:]
        tokens = functional.embedding(positions, table).masked_fill(~mask.t().unsqueeze(2), 0.0)
        dtype = tokens.dtype
        pairs = [(x.to(dtype), y.to(dtype)) for x, y in zip(forward, backward, strict=True)]
        return BiLMOutput([(tokens, tokens), *pairs], mask, final)


def distinct_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of ids (batch, time, columns), and each position's row index."""
    rows, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
    return rows, index.view(ids.shape[:2])


def without_boundaries(layers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Drop the first position and the last real position, the boundary tokens, of each row.

    The vectors are (..., batch, time, dim), then (..., batch, time - 2, dim) and zero at padding;
    the mask is (batch, time), then (batch, time - 2).
    """
    inner = mask[:, 2:]
    return layers[..., 1:-1, :].masked_fill(~inner.unsqueeze(2), 0.0), inner


def _n_active(lengths: Sequence[int], n_steps: int) -> list[int]:
    """Return the number of active rows at each step. The lengths must be in decreasing order."""
    counts: list[int] = []
    for n_rows, length in reversed(list(enumerate(lengths, start=1))):
        counts += [n_rows] * (length - len(counts))
    # The batch can be padded beyond its longest row.
    return counts + [0] * (n_steps - len(counts))
