"""Perplexity under the full softmax, of each direction, and bits per character.

Every word and every sentence end of a text is predicted once by each direction. `measure` is the
pass itself, used while training too; `evaluate` is the verb.
"""

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.config import EvaluateConfig, ReadingConfig, RegularizationConfig
from elmo.corpus.bptt_segments import BPTTSegment, read_once
from elmo.corpus.sentence_reader import corpus_of, read_sentences
from elmo.corpus.shards import Corpus, DistinctWords, Split, is_corpus
from elmo.corpus.token_tables import TokenTables, token_tables
from elmo.errors import ConfigError
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import default_device, move
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.language_model import LanguageModel
from elmo.model.losses import Softmax, exact_losses
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.progress import Progress
from elmo.text.token_batches import token_mapper
from elmo.text.tokenizer import WhitespaceTokenizer

logger = logging.getLogger(__name__)

# A share of words out of vocabulary that is no property of a text, but of how it was split.
MANY_UNKNOWN = 0.3


@dataclass(frozen=True)
class Perplexity:
    """What a language model makes of a text.

    Attributes:
        forward_loss: mean of -ln p over all predictions of the forward direction.
        backward_loss: the same of the backward direction.
        n_predictions: of each direction: words and sentence ends.
        n_words: running words.
        n_unknown: words predicted as `<UNK>`.
        n_characters: code points, and one for each end of a word or sentence.
    """

    forward_loss: float
    backward_loss: float
    n_predictions: int
    n_words: int
    n_unknown: int
    n_characters: int

    @property
    def loss(self) -> float:
        """Mean of both directions."""
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
        """Perplexity of both: exp of the mean loss, their geometric mean."""
        return exp(self.loss)

    @property
    def unknown_rate(self) -> float:
        """Share of the words predicted as `<UNK>`."""
        return self.n_unknown / max(1, self.n_words)

    @property
    def rank(self) -> float:
        """What models are compared by while they are trained; lower is better."""
        return self.loss

    def bits(self, loss: float, units: int) -> float:
        """Spread a mean loss over other units than predictions."""
        return loss / math.log(2) * self.n_predictions / max(1, units)

    def values(self) -> dict[str, float]:
        """Give the figures by name."""
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
        """Say it in one line, as a run does after each evaluation."""
        return (
            f"held-out perplexity forward {self.forward:,.2f}, backward {self.backward:,.2f}; "
            f"{self.values()['bits_per_character']:.4f} bits per character, "
            f"{self.unknown_rate:.2%} unknown"
        )

    def __str__(self) -> str:
        """Say it in lines."""
        figures = self.values()
        return "\n".join(
            [
                f"perplexity           forward {self.forward:,.3f}, backward {self.backward:,.3f}, "
                f"mean {self.mean:,.3f}",
                f"bits per character   {figures['bits_per_character']:.4f}   "
                f"(forward {figures['forward_bits_per_character']:.4f}, backward "
                f"{figures['backward_bits_per_character']:.4f})",
                f"bits per word        {figures['bits_per_word']:.3f}",
                f"out of vocabulary    {self.unknown_rate:.2%} of {self.n_words:,} words, "
                "predicted as <UNK>",
                f"predictions          {self.n_predictions:,} of each direction",
            ]
        )


def exp(loss: float) -> float:
    """Give e to the loss, infinity where that is too much."""
    return math.inf if loss > 700 else math.exp(loss)


# Sums that `measure` adds up: losses of both directions, then four counts.
SUMS = 6


def measure(
    model: LanguageModel,
    softmax: Softmax,
    tables: TokenTables,
    windows: Iterable[BPTTSegment],
    *,
    carry: bool,
) -> Tensor:
    """Add up what `Perplexity` is made of; the sums of several processes can be added.

    Args:
        model: put into evaluation and back.
        softmax: of the model.
        tables: of the words in the windows.
        windows: a text, read once.
        carry: whether any state is carried; else the windows say where it is reset.

    Returns:
        (SUMS,) float64 on the host.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    sums = torch.zeros(SUMS, dtype=torch.float64)
    state: LSTMState | None = None
    try:
        with torch.no_grad():
            for window in windows:
                if state is None or state.batch != window.real.shape[1]:
                    lstm = model.bilm.config.lstm
                    state = LSTMState.zeros(lstm, window.real.shape[1], device=device)
                losses, state = _window_losses(model, softmax, tables, window, state, carry)
                sums += _sums(losses, tables, window)
    finally:
        model.train(was_training)
    return sums


def _window_losses(
    model: LanguageModel,
    softmax: Softmax,
    tables: TokenTables,
    window: BPTTSegment,
    state: LSTMState,
    carry: bool,
) -> tuple[Tensor, LSTMState]:
    """Give the loss of each prediction, (2, predictions), and the state after the window."""
    batch, device = tables.batch(window), state.h.device
    rows, index, targets, resets = (
        torch.from_numpy(array).to(device)
        for array in (tables.rows[batch.words], batch.index, batch.targets, batch.resets)
    )
    hidden, h, c = model(rows.long(), index, None if carry else resets, state.h, state.c)
    losses = [
        exact_losses(softmax, hidden[side].flatten(0, 1), targets[side].flatten())
        for side in (0, 1)
    ]
    return torch.stack(losses), LSTMState(h, c)


def _sums(losses: Tensor, tables: TokenTables, window: BPTTSegment) -> Tensor:
    real = torch.from_numpy(window.real.ravel())
    summed = losses.double().cpu()[:, real].sum(dim=1)
    aims = window.targets[0][window.real]
    counts = [
        len(aims),
        (aims > 1).sum(),
        tables.unknown[aims].sum(),
        tables.characters[aims].sum(),
    ]
    return torch.cat([summed, torch.tensor(counts, dtype=torch.float64)])


def perplexity_of(sums: Tensor) -> Perplexity:
    """Give the result that sums amount to."""
    forward, backward, *counts = sums.tolist()
    n = max(1.0, counts[0])
    return Perplexity(forward / n, backward / n, *map(int, counts))


# ----------------------------------------------------------------------------- the verb


@dataclass(frozen=True)
class EvaluateResult:
    """What `evaluate` found.

    Attributes:
        perplexity: the figures.
        model: what was measured.
        state: reset or carry.
    """

    perplexity: Perplexity
    model: str
    state: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        found = self.perplexity
        counts = {
            "n_predictions": found.n_predictions,
            "n_words": found.n_words,
            "n_unknown": found.n_unknown,
            "n_characters": found.n_characters,
        }
        return {"model": self.model, "state": self.state, **found.values(), **counts}

    def __str__(self) -> str:
        """Return the figures as text."""
        return f"{self.model}, state {self.state}\n{self.perplexity}"


def evaluate(config: EvaluateConfig) -> EvaluateResult:
    """Measure a language model on a text: perplexity of each direction under the full softmax."""
    for name in ("batch_size", "unroll"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least 1")
    if config.state not in ("reset", "carry"):
        raise ConfigError(f"state is {config.state!r}; expected reset or carry")
    found = read(config.model, options=config.options, vocab=config.vocab, softmax=config.softmax)
    words, split = _text(config, found)
    tables = model_tables(found, words)
    network = ELMoNetwork(config=found.config)
    network.load_state_dict(dict(found.weights))
    move(network, config.device or default_device())
    assert network.softmax is not None
    windows = read_once(
        split,
        n_streams=config.batch_size,
        n_steps=config.unroll,
        reset=config.state == "reset",
        drop_tail=config.drop_tail,
    )
    with Progress("evaluate", split.n_pairs, "predictions") as progress, exact_float32():
        sums = measure(
            LanguageModel(bilm=network.bilm, regularization=RegularizationConfig()),
            network.softmax,
            tables,
            _counted(windows, progress),
            carry=config.state == "carry",
        )
    if not sums[2]:
        raise ConfigError(
            f"{', '.join(config.text)}: the text ends in its first batch, which drop_tail leaves "
            "out: take a smaller batch_size or unroll"
        )
    result = EvaluateResult(perplexity_of(sums), config.model, config.state)
    tokenizer = found.config.text.tokenizer
    is_split = config.raw or tokenizer in (None, WhitespaceTokenizer.name)
    if result.perplexity.unknown_rate > MANY_UNKNOWN and not is_split:
        logger.warning(
            "%.0f %% of the words are out of vocabulary; the model's text was split by %s: --raw "
            "splits this one so, too",
            100 * result.perplexity.unknown_rate,
            tokenizer,
        )
    return result


def _counted(windows: Iterable[BPTTSegment], progress: Progress) -> Iterable[BPTTSegment]:
    for window in windows:
        yield window
        progress.advance(int(window.real.sum()))


def _text(config: EvaluateConfig, model: Pretrained) -> tuple[DistinctWords, Split]:
    if len(config.text) == 1 and is_corpus(Path(config.text[0])):
        corpus = Corpus.open(Path(config.text[0]))
        if config.split not in corpus.splits:
            known = ", ".join(corpus.splits)
            raise ConfigError(f"{config.text[0]} has no split {config.split!r}; it has: {known}")
        return corpus.words, corpus.splits[config.split]
    tokenizer = model.config.text.tokenizer if config.raw else None
    reading = ReadingConfig(
        tokenizer=tokenizer or "whitespace", keep_blank_lines=config.keep_blank_lines
    )
    words, split = corpus_of(read_sentences(config.text, reading))
    if not split.n_sentences:
        raise ConfigError(f"{', '.join(config.text)}: there is no sentence in it")
    return words, split


def model_tables(model: Pretrained, words: DistinctWords) -> TokenTables:
    """Give the tables of words for a model that has a softmax; refuse one that has none."""
    if not model.config.n_softmax_words:
        raise ConfigError(
            f"this {model.origin} has no softmax, so it predicts no words: give it one with elmo "
            "finetune, or name its softmax file with --softmax"
        )
    if model.vocabulary is None:
        raise ConfigError(
            f"this {model.origin} has a softmax but no vocabulary: name the file with --vocab"
        )
    mapper = token_mapper(model.config, model.characters, model.words)
    return token_tables(words, mapper, model.vocabulary)
