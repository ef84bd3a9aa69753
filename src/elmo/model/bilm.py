"""The bidirectional language model: distinct token rows in, the vectors of every layer out.

The two directions share the token encoder and nothing else. Sentence marks are ordinary tokens
here; who made the rows put them in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import ModelConfig
from elmo.model.lstm import LSTMStack, LSTMState, Side, Steps, run_stacks
from elmo.model.token_encoder import TokenEncoder


@dataclass(frozen=True)
class BiLMOutput:
    """What one pass gives; marks are still in, where nothing else was asked for.

    Attributes:
        sides: both halves of each layer, (time, batch, projection): the token vector twice, then
            forward and backward for each LSTM layer; zero at padding, but for the end marks of
            shorter rows where marks were left out.
        mask: true at real positions, (batch, time).
        state: state after the last position each direction has read.
    """

    sides: Sequence[tuple[Tensor, Tensor]]
    mask: Tensor
    state: LSTMState

    @property
    def layers(self) -> Tensor:
        """All layers put together, (layers + 1, batch, time, 2 * projection)."""
        return torch.stack([torch.cat(pair, dim=2) for pair in self.sides]).transpose(1, 2)

    def layer(self, number: int) -> Tensor:
        """Give one layer, (batch, time, 2 * projection)."""
        return torch.cat(self.sides[number], dim=2).transpose(0, 1)

    def average(self) -> Tensor:
        """Give the plain mean of all layers, in float32 at least, (batch, time, 2 * projection)."""
        tokens, _ = self.sides[0]
        wide = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
        total, width = torch.cat([wide, wide], dim=2), wide.shape[2]
        for ahead, back in self.sides[1:]:
            total.narrow(2, 0, width).add_(ahead)
            total.narrow(2, width, width).add_(back)
        return total.div_(len(self.sides)).transpose(0, 1)


class BiLM(nn.Module):
    """Token encoder and two LSTM stacks (Peters et al., 2018, section 3.1)."""

    def __init__(self, *, config: ModelConfig) -> None:
        """Make the network with uninitialised LSTM weights: load them or call `initialise`.

        Args:
            config: the model's dials.
        """
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config=config.encoder, output_dim=config.lstm.projection_dim)
        self.forward_lstm = LSTMStack(config=config.lstm)
        self.backward_lstm = LSTMStack(config=config.lstm)

    def use_kernel(self, name: str) -> None:
        """Compute with an implementation of that name, as `kernels.choose` knows them."""
        for stack in (self.forward_lstm, self.backward_lstm):
            stack.kernel = name
        self.encoder.use_kernel(name)

    def forward(
        self,
        rows: Tensor,
        index: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
        lengths: Sequence[int] | None = None,
        known: Tensor | None = None,
        words_only: bool = False,
        n_layers: int | None = None,
    ) -> BiLMOutput:
        """Run the model.

        Args:
            rows: distinct token rows, (distinct, columns); not looked at where they are known.
            index: which row stands where, (batch, time); anything at padding.
            mask: true at real positions, which stand on the left, (batch, time), or None where
                all are real.
            state: initial state; zeros where None.
            lengths: tokens of each row, where the host knows them: padding then costs nothing.
            known: token vectors that were computed before, (distinct, dim).
            words_only: leave out the marks at both ends of a row, (batch, time - 2). A direction
                does not read the mark it would read last, which no word's vector depends on; so
                the final state is not one to go on with.
            n_layers: LSTM layers that are run, from below; all where None.

        Returns:
            Layers, mask and final state.
        """
        table = self.encoder(rows) if known is None else known
        return self.contextualise(table, index, mask, state, lengths, words_only, n_layers)

    def contextualise(
        self,
        table: Tensor,
        index: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
        lengths: Sequence[int] | None = None,
        words_only: bool = False,
        n_layers: int | None = None,
    ) -> BiLMOutput:
        """Run the LSTMs over token vectors that are known already.

        Args:
            table: token vectors, (distinct, dim); the other arguments are those of `forward`.
            index: which vector stands where, (batch, time).
            mask: true at real positions.
            state: initial state.
            lengths: tokens of each row.
            words_only: leave out the marks.
            n_layers: layers that are run.
        """
        if mask is None:
            mask = torch.ones_like(index, dtype=torch.bool)
            lengths = [index.shape[1]] * index.shape[0]
        if state is None:
            state = LSTMState.zeros(
                self.config.lstm, index.shape[0], device=table.device, dtype=table.dtype
            )
        if lengths is None or list(lengths) == sorted(lengths, reverse=True):
            return self._run(table, index, mask, state, lengths, words_only, n_layers)
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        there = torch.tensor(order, device=index.device)
        sorted_lengths = [lengths[row] for row in order]
        rows = (index[there], mask[there], state.select(there))
        output = self._run(table, *rows, sorted_lengths, words_only, n_layers)
        back = there.argsort()
        sides = [(ahead[:, back], behind[:, back]) for ahead, behind in output.sides]
        return BiLMOutput(sides, output.mask[back], output.state.select(back))

    def _run(
        self,
        table: Tensor,
        index: Tensor,
        mask: Tensor,
        state: LSTMState,
        lengths: Sequence[int] | None,
        words_only: bool,
        n_layers: int | None,
    ) -> BiLMOutput:
        """Run the stacks; lengths, where given, never grow."""
        places = index.t().contiguous()  # (time, batch)
        steps = Steps(mask.t(), None if lengths is None else _active(lengths, index.shape[1]))
        read = (places, places)
        if words_only:
            # Each reads one step less, from its own end; of a row's steps as many are real then.
            steps = Steps(steps.mask[1:], None if steps.active is None else steps.active[1:])
            read = (places[:-1], places[1:])
        sides = [
            Side(self.forward_lstm, table, steps, reverse=False, index=read[0]),
            Side(self.backward_lstm, table, steps, reverse=True, index=read[1]),
        ]
        (ahead, back), final = run_stacks(sides, state, n_layers=n_layers)
        if words_only:
            ahead, back = [one[1:] for one in ahead], [one[:-1] for one in back]
            places, mask = places[1:-1], mask[:, 2:]
        tokens = functional.embedding(places, table).masked_fill(~mask.t().unsqueeze(2), 0.0)
        kind = tokens.dtype
        pairs = [(one.to(kind), other.to(kind)) for one, other in zip(ahead, back, strict=True)]
        return BiLMOutput([(tokens, tokens), *pairs], mask, final)


def distinct_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Split (batch, time, columns) ids into distinct rows and (batch, time) indices."""
    rows, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
    return rows, index.view(ids.shape[:2])


def without_boundaries(layers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Drop the sentence marks: the first position and the last real one of each row.

    Args:
        layers: (..., batch, time, dim).
        mask: (batch, time), true on the left.

    Returns:
        Layers (..., batch, time - 2, dim), zero at padding, and their mask.
    """
    inner = mask[:, 2:]
    return layers[..., 1:-1, :].masked_fill(~inner.unsqueeze(2), 0.0), inner


def _active(lengths: Sequence[int], n_steps: int) -> list[int]:
    """Count the rows that reach each step; lengths never grow."""
    counts: list[int] = []
    for rows, length in reversed(list(enumerate(lengths, start=1))):
        counts += [rows] * (length - len(counts))
    # A batch may be wider than its longest row.
    return counts + [0] * (n_steps - len(counts))
