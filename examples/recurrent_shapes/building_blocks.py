"""Parts that the five examples share: a recurrent layer, an alphabet, batches and training.

The layer is the one that the language models of this package are made of: `RecurrentLayer` has the
weights, and `run_recurrent` computes all time steps. Here it is a GRU, because the whole state of a
GRU is one vector, h:

    h(t) = GRU(x(t), h(t-1))

A batch is (time, batch, dim): row `t` contains step `t` of all sequences.
"""

import argparse
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo.config.language_models import RecurrentConfig
from elmo.kernels.recurrent_kernels import run_recurrent
from elmo.lab.recurrent_layer import RecurrentLayer

PADDING = 0


class Recurrent(nn.Module):
    """A layer of GRU cells."""

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        """Draw the weights from the global random numbers of PyTorch."""
        super().__init__()
        config = RecurrentConfig(cell="gru", n_layers=1, hidden_dim=hidden_dim)
        self.layer = RecurrentLayer(
            config=config, input_dim=input_dim, hidden_dim=hidden_dim, output_dim=hidden_dim
        )
        self.layer.initialize(torch.default_generator)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the states after all steps, (time, batch, hidden).

        Args:
            x: Input vectors, (time, batch, dim).
            h: State before the first step, (batch, hidden). Default: zeros.
        """
        if h is None:
            h = x.new_zeros(x.shape[1], self.layer.hidden_dim)
        return run_recurrent(self.layer.call(x, h, None)).output


class Alphabet:
    """Symbols (characters or words) and their ids. Id 0 is padding."""

    def __init__(self, symbols: Sequence[str]) -> None:
        """Assign ids to the symbols in the given order, from 1."""
        self.symbols = ["", *symbols]
        self.ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        """Return the number of ids, including padding."""
        return len(self.symbols)

    def encode(self, symbols: Sequence[str]) -> Tensor:
        """Return the ids of a sequence of symbols; a string is a sequence of characters."""
        return torch.tensor([self.ids[symbol] for symbol in symbols])

    def batch(self, sequences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return ids (time, batch), padded at the end, and the lengths of the sequences."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        rows = [self.encode(sequence) for sequence in sequences]
        return pad_sequence(rows, padding_value=PADDING), lengths


def last_real_states(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the state after the last real symbol of each sequence, (batch, hidden)."""
    return states[lengths - 1, torch.arange(len(lengths))]


@contextmanager
def small_products() -> Iterator[None]:
    """Use one thread and no oneDNN: both slow down products of matrices as small as these."""
    onednn: Any = torch.backends.mkldnn
    before = torch.get_num_threads(), onednn.enabled
    torch.set_num_threads(1)
    onednn.enabled = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        onednn.enabled = before[1]


@small_products()
def train(
    model: nn.Module, batch_loss: Callable[[], Tensor], steps: int, learning_rate: float = 0.01
) -> None:
    """Minimize a loss with Adam, and print it four times.

    Args:
        model: Model, changed in place.
        batch_loss: Draws a batch and returns its loss.
        steps: Number of batches.
        learning_rate: Learning rate of the first step. It decreases linearly to 0.
    """
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, max(steps, 1))
    for step in range(1, steps + 1):
        loss = batch_loss()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        # A recurrent network multiplies gradients step by step, so that some are huge.
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(steps // 4, 1) == 0:
            print(f"  step {step}: loss {loss.item():.3f}")


def run_from_command_line(example: Callable[..., object]) -> None:
    """Call the main function of an example with `--steps` and `--seed`, and print the time."""
    parser = argparse.ArgumentParser()
    for name, argument in inspect.signature(example).parameters.items():
        parser.add_argument(f"--{name}", type=int, default=argument.default)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps must be at least 1 (got {options.steps}).")
    started = time.perf_counter()
    example(**vars(options))
    print(f"{time.perf_counter() - started:.0f} seconds")
