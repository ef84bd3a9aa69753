"""Loss of a language model on a text: nats, bits per character and perplexity."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from elmo.config.language_models import SegmentConfig, Unit
from elmo.lab import loss_measures
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbol_text import TextPart
from elmo.lab.symbols import Ids, Symbols

# Batch rows, steps per segment, and steps that a row reads before its first prediction counts.
ROWS, UNROLL, WARM_UP = 32, 256, 512

# Wraps the losses of each segment and their number, to show progress.
LossWatch = Callable[[Iterable[Tensor], int], Iterator[Tensor]]

# Returns the input of the softmax, (time, batch, dim), and the state after a segment, given the
# input vectors of all symbols, the symbols of the segment, (time, batch), and the state before it.
SegmentReader = Callable[[Tensor, Tensor, RecurrentState], tuple[Tensor, RecurrentState]]


@dataclass(frozen=True)
class TextLoss:
    """Loss of a language model on a text.

    Attributes:
        nats: Mean -ln p per predicted symbol.
        n_symbols: Number of predicted symbols.
        n_characters: Number of characters of the text, including spaces and line breaks.
        unit: What the model predicts.
        unknown_rate: Share of symbols that were predicted as `<UNK>`.
    """

    nats: float
    n_symbols: int
    n_characters: int
    unit: Unit
    unknown_rate: float

    @classmethod
    def of_part(cls, nats: float, part: TextPart, symbols: Symbols) -> "TextLoss":
        """Return the mean loss on a part of a text, all of which was predicted."""
        return cls(
            nats,
            # Without a symbol for line breaks, the first symbol is not predicted.
            len(part.ids) - (symbols.end is None),
            part.n_characters,
            symbols.unit,
            0.0 if symbols.unknown is None else part.unknown_rate,
        )

    @property
    def perplexity(self) -> float:
        """Perplexity per symbol."""
        return loss_measures.perplexity(self.nats)

    @property
    def bits_per_character(self) -> float:
        """Total bits divided by the number of characters; for bytes, bits per byte."""
        return loss_measures.bits_per_character(self.nats, self.characters_per_symbol)

    @property
    def characters_per_symbol(self) -> float:
        """Mean number of characters per predicted symbol."""
        return self.n_characters / self.n_symbols

    @property
    def rank(self) -> float:
        """Score by which models are compared; lower is better."""
        return self.nats

    def values(self) -> dict[str, float]:
        """Return all figures by name."""
        return {
            "nats": self.nats,
            "bits_per_character": self.bits_per_character,
            "perplexity": self.perplexity,
        }

    def line(self) -> str:
        """Return the figures as one line of text."""
        per = "byte" if self.unit == "bytes" else "character"
        text = f"{self.nats:.4f} nats per {self.unit.removesuffix('s')}, "
        text += f"{self.bits_per_character:.4f} bits per {per}, "
        text += f"perplexity {loss_measures.perplexity_text(self.nats)}"
        if self.unknown_rate:
            text += f", {self.unknown_rate:.2%} <UNK>"
            if self.unit == "words":
                text += " (bits per character are too low)"
        return text


class EvaluationOptions(TypedDict):
    """How a text is evaluated; see `text_loss`."""

    unroll: int
    carry: bool


def evaluation_options(segments: SegmentConfig) -> EvaluationOptions:
    """Return the options that treat the state as in training."""
    if segments.state == "carry":
        return {"unroll": UNROLL, "carry": True}
    return {"unroll": segments.unroll, "carry": False}


def text_loss(
    network: RecurrentNetwork,
    symbols: Symbols,
    part: TextPart,
    *,
    rows: int = ROWS,
    unroll: int = UNROLL,
    carry: bool = True,
    watch: LossWatch | None = None,
    read: SegmentReader | None = None,
) -> TextLoss:
    """Return the loss of a network on a text.

    The state is carried through the text. To predict in parallel, the text is divided into rows;
    each row first reads some of the text before it.

    Args:
        network: The network, in evaluation mode.
        symbols: Its symbols.
        part: The text.
        rows: Number of batch rows.
        unroll: Number of time steps at a time.
        carry: Whether the state is carried over; otherwise it is zero every `unroll` steps.
        watch: Function that wraps the iterable of losses, to show progress.
        read: Function that runs the recurrent layers. Default: those of the network.
    """
    inputs, targets = predictions(part.inputs.ids, symbols)
    new_words, read = part.inputs.new_words, read or _reader(network)
    losses = _losses(network, inputs, targets, new_words, rows, unroll, carry, read)
    n_segments = math.ceil(math.ceil(len(targets) / _rows(rows, len(targets), carry)) / unroll)
    total = torch.zeros(
        (), dtype=torch.float64, device=network.recurrent_layers()[0].bias_ih.device
    )
    for values in losses if watch is None else watch(losses, n_segments):
        total += values.double().sum()
    return TextLoss.of_part(float(total) / len(targets), part, symbols)


def predictions(ids: Ids, symbols: Symbols) -> tuple[Ids, Ids]:
    """Return the inputs and targets of a text; its first symbol is predicted after a line break.

    Without a symbol for line breaks, the first symbol is not predicted. Words that are not symbols
    are `<UNK>` as targets.
    """
    targets = symbols.close(ids)
    if symbols.end is None:
        return ids[:-1], targets[1:]
    return np.concatenate([[np.int32(symbols.end)], ids[:-1]]).astype(np.int32), targets


def _rows(rows: int, n_predictions: int, carry: bool) -> int:
    """Return the number of rows; with carried state, each is at least as long as its warm-up."""
    return max(1, min(rows, n_predictions // WARM_UP if carry else n_predictions))


def _reader(network: RecurrentNetwork) -> SegmentReader:
    def read(
        vectors: Tensor, index: Tensor, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        output = network(vectors, index, state)
        return output.hidden, output.state

    return read


@torch.no_grad()
def _losses(
    network: RecurrentNetwork,
    inputs: Ids,
    targets: Ids,
    new_words: Sequence[str],
    rows: int,
    unroll: int,
    carry: bool,
    read: SegmentReader,
) -> Iterator[Tensor]:
    """Yield the losses of all predictions, one segment of all rows after another."""
    device = network.recurrent_layers()[0].bias_ih.device
    vectors = network.vectors_with(new_words)
    rows = _rows(rows, len(targets), carry)
    length = math.ceil(len(targets) / rows)
    warm_up = WARM_UP if carry and rows > 1 else 0
    begins = length * np.arange(rows)

    def segment(first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = begins + np.arange(first, last)[:, None]
        valid = positions < np.minimum(begins + length, len(targets))
        positions = positions.clip(0, len(targets) - 1)
        x, y = (torch.from_numpy(ids[positions].astype(np.int64)) for ids in (inputs, targets))
        return x.to(device), y.to(device), torch.from_numpy(valid).to(device)

    state = network.zero_state(rows)
    for first in range(-warm_up, 0, unroll):
        x, _, _ = segment(first, min(first + unroll, 0))
        _, state = read(vectors, x, state)
    if warm_up:
        # There is no text before the first row.
        for value in (*state.h, *state.c):
            value[0] = 0.0
    for first in range(0, length, unroll):
        x, y, valid = segment(first, min(first + unroll, length))
        if not carry:
            state = network.zero_state(rows)
        hidden, state = read(vectors, x, state)
        losses = network.losses(hidden.flatten(0, 1), y.flatten(), vectors)
        yield losses[valid.flatten()]
