"""Perplexity and bits per character of a language model, computed with the full softmax.

Each direction predicts every word and every end-of-sentence token of a text once. Its bits per
character are its total bits divided by the number of characters of the original text, including
spaces and line ends; those of the model are the mean of both directions.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from elmo.corpus.bptt_segments import BPTTSegment
from elmo.corpus.character_counts import CharacterRatio
from elmo.corpus.shards import DistinctWords
from elmo.corpus.token_tables import TokenTables, token_tables
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.inference.engine import compile_kernels
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.losses import Softmax, exact_losses, merged_losses
from elmo.model.lstm import LSTMState
from elmo.progress import format_count
from elmo.text.token_batches import token_mapper


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a language model on a text.

    The losses are mean negative log-likelihoods per prediction, in nats. Predictions are all words
    and end-of-sentence tokens, per direction. Unknown words are predicted as `<UNK>`. Characters
    are code points of the original text, including spaces and line ends; they are estimated if the
    corpus does not record them.
    """

    forward_loss: float
    backward_loss: float
    n_predictions: int
    n_words: int
    n_unknown: int
    n_characters: int
    characters_estimated: bool = False

    @property
    def loss(self) -> float:
        """Mean loss of both directions."""
        return 0.5 * (self.forward_loss + self.backward_loss)

    @property
    def forward(self) -> float:
        """Perplexity of the forward direction."""
        return exp(self.forward_loss)

    @property
    def backward(self) -> float:
        """Perplexity of the backward direction."""
        return exp(self.backward_loss)

    @property
    def mean(self) -> float:
        """Geometric mean of the perplexities of both directions."""
        return exp(self.loss)

    @property
    def unknown_rate(self) -> float:
        """Fraction of words that are out of vocabulary."""
        return self.n_unknown / max(1, self.n_words)

    @property
    def rank(self) -> float:
        """Score for model selection during training; lower is better."""
        return self.loss

    def bits(self, loss: float, units: int) -> float:
        """Convert a mean loss per prediction, in nats, to bits per unit."""
        return loss / math.log(2) * self.n_predictions / max(1, units)

    def values(self) -> dict[str, float]:
        """Return all metrics by name."""
        return {
            "forward": self.forward,
            "backward": self.backward,
            "mean": self.mean,
            "forward_bits_per_character": self.bits(self.forward_loss, self.n_characters),
            "backward_bits_per_character": self.bits(self.backward_loss, self.n_characters),
            "bits_per_character": self.bits(self.loss, self.n_characters),
            "bits_per_word": self.bits(self.loss, self.n_words),
            "unknown_rate": self.unknown_rate,
        }

    def line(self) -> str:
        """Return a one-line summary for the training log."""
        return (
            f"held-out perplexity forward {self.forward:,.2f}, backward {self.backward:,.2f}; "
            f"{self.values()['bits_per_character']:.4f} bits per character, "
            f"{self.unknown_rate:.2%} unknown"
        )

    def __str__(self) -> str:
        values = self.values()
        characters = format_count(self.n_characters, "character")
        if self.characters_estimated:
            characters = f"about {characters}"
        notes = []
        if self.n_unknown:
            notes.append(
                "An unknown word only costs the bits of <UNK>, so the bits per character and per "
                "word are too low."
            )
        if self.characters_estimated:
            notes.append(
                "The number of characters is estimated from the words, because the corpus was "
                "prepared by an earlier version. Run elmo prepare again for the exact number."
            )
        return "\n".join(
            [
                f"perplexity           forward {self.forward:,.3f}, backward {self.backward:,.3f}, "
                f"mean {self.mean:,.3f}",
                f"bits per character   {values['bits_per_character']:.4f}   "
                f"(forward {values['forward_bits_per_character']:.4f}, backward "
                f"{values['backward_bits_per_character']:.4f}; {characters})",
                f"bits per word        {values['bits_per_word']:.3f}",
                f"out of vocabulary    {self.unknown_rate:.2%} of "
                f"{format_count(self.n_words, 'word')}, predicted as <UNK>",
                f"predictions          {self.n_predictions:,} of each direction",
                *notes,
            ]
        )


def exp(loss: float) -> float:
    """Convert a loss to a perplexity, which is infinite if it would overflow."""
    return math.inf if loss > 700 else math.exp(loss)


# Number of sums that `measure` returns: the losses of both directions and four counts.
N_SUMS = 6


def measure(
    model: BidirectionalLM,
    softmax: Softmax,
    tables: TokenTables,
    segments: Iterable[BPTTSegment],
    *,
    carry: bool,
    merged: Tensor | None = None,
) -> Tensor:
    """Sum the losses and counts from which `perplexity_of` computes the perplexity.

    If several processes each read a part of the text, their results can be added. The model is
    switched to evaluation mode and to kernels for fixed weights during the call.

    Args:
        model: Language model.
        softmax: Softmax of the model.
        tables: Tables for the words in the text.
        segments: BPTT segments that cover the text once.
        carry: Whether to always carry the LSTM state over. If False, the state is reset at the
            positions marked in the segments.
        merged: Whether each word of the softmax counts as `<UNK>`, (words,), on the device of the
            model. None: no word but `<UNK>` itself.

    Returns:
        Sums on the CPU, (N_SUMS,), float64: forward loss, backward loss, and the numbers of
        predictions, words, unknown words and characters as counted by the tables.
    """
    device = next(model.parameters()).device
    was_training, kernels = model.training, model.kernels
    model.eval()
    model.kernels = compile_kernels(model.bilm.named_parameters(), kernels)
    sums = torch.zeros(N_SUMS, dtype=torch.float64)
    state: LSTMState | None = None
    try:
        with torch.no_grad():
            for segment in segments:
                if state is None or state.batch != segment.real.shape[1]:
                    lstm = model.bilm.config.lstm
                    state = LSTMState.zeros(lstm, segment.real.shape[1], device=device)
                losses, state = _segment_losses(
                    model, softmax, tables, segment, state, carry, merged
                )
                sums += _segment_sums(losses, tables, segment)
    finally:
        model.train(was_training)
        model.kernels = kernels
    return sums


def _segment_losses(
    model: BidirectionalLM,
    softmax: Softmax,
    tables: TokenTables,
    segment: BPTTSegment,
    state: LSTMState,
    carry: bool,
    merged: Tensor | None,
) -> tuple[Tensor, LSTMState]:
    """Return the losses of predictions without padding, (2, predictions), and the last state."""
    batch, device = tables.batch(segment), state.h.device
    rows, index, targets, resets = (
        torch.from_numpy(array).to(device)
        for array in (tables.rows[batch.words], batch.index, batch.targets, batch.resets)
    )
    hidden, h, c = model(rows.long(), index, None if carry else resets, state.h, state.c)
    # The softmax takes most of the time on a CPU, and a short text is mostly padding.
    real = torch.from_numpy(np.flatnonzero(segment.real)).to(device)
    losses = []
    for direction in (0, 1):
        predictions = hidden[direction].flatten(0, 1)[real], targets[direction].flatten()[real]
        if merged is None:
            losses.append(exact_losses(softmax, *predictions))
        else:
            assert isinstance(softmax, nn.Linear)
            losses.append(merged_losses(softmax, *predictions, merged))
    return torch.stack(losses), LSTMState(h, c)


def _segment_sums(losses: Tensor, tables: TokenTables, segment: BPTTSegment) -> Tensor:
    loss_sums = losses.double().cpu().sum(dim=1)
    targets = segment.targets[0][segment.real]
    counts = [
        len(targets),
        (targets > 1).sum(),
        tables.unknown[targets].sum(),
        tables.characters[targets].sum(),
    ]
    return torch.cat([loss_sums, torch.tensor(counts, dtype=torch.float64)])


def perplexity_of(sums: Tensor, ratio: CharacterRatio) -> Perplexity:
    """Compute the perplexity from the sums returned by `measure`, (N_SUMS,).

    The ratio converts the counted characters to those of the original text.
    """
    forward, backward, *counts = sums.tolist()
    n_predictions, n_words, n_unknown, n_counted = map(int, counts)
    n = max(1, n_predictions)
    return Perplexity(
        forward / n,
        backward / n,
        n_predictions,
        n_words,
        n_unknown,
        round(n_counted * ratio.value),
        ratio.is_estimate,
    )


def model_tables(model: Pretrained, words: DistinctWords) -> TokenTables:
    """Build the tables to read and predict words with a model that has a softmax."""
    if not model.config.n_softmax_words:
        raise ConfigError(
            f"This {model.origin} has no softmax and cannot predict words. Specify its softmax "
            "file with --softmax, or train a softmax with elmo finetune."
        )
    if model.vocabulary is None:
        raise ConfigError(
            f"This {model.origin} has a softmax but no vocabulary. Specify the vocabulary file "
            "with --vocab."
        )
    mapper = token_mapper(model.config, model.characters, model.words)
    return token_tables(words, mapper, model.vocabulary)
