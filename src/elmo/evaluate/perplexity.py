"""Perplexity and bits per character of a language model, computed with the full softmax.

Each direction predicts every word and every end-of-sentence token of a text once. Its bits per
character are its total bits divided by the number of characters of the original text, including
spaces and line ends; those of the model are the mean of both directions. `measure` runs
the model on a text and is also used during training. `evaluate` implements the `elmo evaluate`
command.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo.config import EvaluateConfig, ReadingConfig, RegularizationConfig
from elmo.corpus.bptt_segments import BPTTSegment, read_once
from elmo.corpus.character_counts import CharacterRatio, character_ratio
from elmo.corpus.sentence_reader import read_corpus, reject_file_options
from elmo.corpus.shards import Corpus, DistinctWords, Split, is_corpus
from elmo.corpus.token_tables import TokenTables, token_tables
from elmo.errors import ConfigError
from elmo.formats.attribution import LANGUAGE
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import SENTENCES
from elmo.inference.engine import compile_kernels
from elmo.kernels.device import default_device, move
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.language_model import LanguageModel
from elmo.model.losses import Softmax, exact_losses, merged_losses
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.progress import Progress, format_count
from elmo.text.korean import is_decomposed
from elmo.text.line_splitter import CONVERT_REMEDY, TextCheck, splits_at_spaces
from elmo.text.token_batches import token_mapper
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.vocabulary import UNKNOWN, Vocabulary

logger = logging.getLogger(__name__)

# If more than this fraction of the words is out of vocabulary, the text was probably not tokenized
# like the training text.
MAX_UNKNOWN_RATE = 0.3


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a language model on a text.

    Attributes:
        forward_loss: Mean negative log-likelihood per prediction of the forward direction, in nats.
        backward_loss: Mean negative log-likelihood per prediction of the backward direction.
        n_predictions: Number of predictions per direction: all words and end-of-sentence tokens.
        n_words: Number of words in the text.
        n_unknown: Number of words that are out of vocabulary and predicted as `<UNK>`.
        n_characters: Number of characters (code points) of the original text, including spaces and
            line ends.
        characters_estimated: Whether the number of characters is an estimate, because the corpus
            does not record it.
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
        """Return a report of several lines."""
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
    model: LanguageModel,
    softmax: Softmax,
    tables: TokenTables,
    segments: Iterable[BPTTSegment],
    *,
    carry: bool,
    merged: Tensor | None = None,
) -> Tensor:
    """Sum the losses and counts from which `perplexity_of` computes the perplexity.

    If several processes each read a part of the text, their results can be added.

    Args:
        model: Language model. It is switched to evaluation mode and to kernels for fixed weights
            during the call.
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
    model.kernels = compile_kernels(model.bilm.parameters(), kernels)
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
    model: LanguageModel,
    softmax: Softmax,
    tables: TokenTables,
    segment: BPTTSegment,
    state: LSTMState,
    carry: bool,
    merged: Tensor | None,
) -> tuple[Tensor, LSTMState]:
    """Return the loss of each prediction, (2, predictions), and the final LSTM state."""
    batch, device = tables.batch(segment), state.h.device
    rows, index, targets, resets = (
        torch.from_numpy(array).to(device)
        for array in (tables.rows[batch.words], batch.index, batch.targets, batch.resets)
    )
    hidden, h, c = model(rows.long(), index, None if carry else resets, state.h, state.c)
    losses = []
    for direction in (0, 1):
        predictions = hidden[direction].flatten(0, 1), targets[direction].flatten()
        if merged is None:
            losses.append(exact_losses(softmax, *predictions))
        else:
            assert isinstance(softmax, nn.Linear)
            losses.append(merged_losses(softmax, *predictions, merged))
    return torch.stack(losses), LSTMState(h, c)


def _segment_sums(losses: Tensor, tables: TokenTables, segment: BPTTSegment) -> Tensor:
    real = torch.from_numpy(segment.real.ravel())
    loss_sums = losses.double().cpu()[:, real].sum(dim=1)
    targets = segment.targets[0][segment.real]
    counts = [
        len(targets),
        (targets > 1).sum(),
        tables.unknown[targets].sum(),
        tables.characters[targets].sum(),
    ]
    return torch.cat([loss_sums, torch.tensor(counts, dtype=torch.float64)])


def perplexity_of(sums: Tensor, ratio: CharacterRatio) -> Perplexity:
    """Compute the perplexity from the sums returned by `measure`.

    Args:
        sums: Sums over a text or a part of it, (N_SUMS,).
        ratio: Ratio that converts the counted characters to those of the original text.
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


# ----------------------------------------------------------------------------- elmo evaluate


@dataclass(frozen=True)
class EvaluateResult:
    """Result of `evaluate`.

    Attributes:
        perplexity: Perplexity of the model on the text.
        model: Model name or path, as given in the config.
        state: How the LSTM state was handled, "reset" or "carry".
        split: The split of a prepared corpus; None for text.
        sentences: How a text was split into sentences, "line" or "split"; None for a corpus.
        n_sentences: Number of sentences.
        common_vocab: The common vocabulary, outside of which words counted as unknown.
    """

    perplexity: Perplexity
    model: str
    state: str
    split: str | None
    sentences: str | None
    n_sentences: int
    common_vocab: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        perplexity = self.perplexity
        counts = {
            "n_sentences": self.n_sentences,
            "n_predictions": perplexity.n_predictions,
            "n_words": perplexity.n_words,
            "n_unknown": perplexity.n_unknown,
            "n_characters": perplexity.n_characters,
            "characters_estimated": perplexity.characters_estimated,
        }
        text = {"split": self.split, "sentences": self.sentences}
        return {"model": self.model, "state": self.state, **text, **perplexity.values(), **counts}

    def __str__(self) -> str:
        """Return the result as text of several lines."""
        text = f"sentences {self.sentences}" if self.split is None else f"split {self.split}"
        lines = [f"{self.model}, state {self.state}, {text}", str(self.perplexity)]
        if self.common_vocab is not None:
            lines.append(
                "These figures can be compared with those of other models on the same text with "
                f"--common-vocab {self.common_vocab}."
            )
        elif self.perplexity.n_unknown:
            lines.append(
                "Models with different vocabularies can only be compared with --common-vocab."
            )
        return "\n".join(lines)


def evaluate(config: EvaluateConfig) -> EvaluateResult:
    """Compute the perplexity of a language model on a text, with the full softmax."""
    for name in ("batch_size", "unroll"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} must be at least 1 (got {getattr(config, name)}).")
    if config.state not in ("reset", "carry"):
        raise ConfigError(f"state must be reset or carry (got {config.state!r}).")
    model = read(config.model, options=config.options, vocab=config.vocab, softmax=config.softmax)
    text = _read_text(config, model)
    split = text.split
    tables = model_tables(model, text.words)
    ratio = character_ratio(split, tables, text.tokenizer)
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    device = config.device or default_device()
    move(network, device)
    assert network.softmax is not None
    merged = None
    if config.common_vocab is not None:
        merged = _words_outside(model, config.common_vocab)
        tables = dataclasses.replace(tables, unknown=merged[tables.targets])
    segments = read_once(
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
            _with_progress(segments, progress),
            carry=config.state == "carry",
            merged=None if merged is None else torch.from_numpy(merged).to(device),
        )
    if not sums[2]:
        raise ConfigError(
            f"{', '.join(config.text)}: the text is shorter than one batch, and drop_tail skips "
            "incomplete batches. Use a smaller batch_size or unroll."
        )
    result = EvaluateResult(
        perplexity_of(sums, ratio),
        config.model,
        config.state,
        text.split_name,
        text.sentences,
        split.n_sentences,
        config.common_vocab,
    )
    tokenizer = model.config.text.tokenizer
    if result.perplexity.unknown_rate > MAX_UNKNOWN_RATE:
        remedy = "Use a model that was trained on such text."
        if any(is_decomposed(text.words[number]) for number in range(len(text.words))):
            remedy = "Normalize the text to NFC."
        elif config.pretokenized and not splits_at_spaces(tokenizer):
            remedy = (
                f"The model was trained on text tokenized with {tokenizer}; omit --pretokenized to "
                "tokenize this text in the same way."
            )
        logger.warning(
            "%.0f %% of the words are out of vocabulary and count as <UNK>, so the perplexity is "
            "not meaningful. %s",
            100 * result.perplexity.unknown_rate,
            remedy,
        )
    return result


def _words_outside(model: Pretrained, common_vocab: str) -> NDArray[np.bool_]:
    """Return whether each word of the softmax counts as `<UNK>` with a common vocabulary."""
    assert model.vocabulary is not None
    if model.config.softmax_cutoffs:
        raise ConfigError("common_vocab cannot be used for a model with an adaptive softmax.")
    common = Vocabulary.load(Path(common_vocab)).ids
    return np.array([word == UNKNOWN or word not in common for word in model.vocabulary.words])


def _with_progress(segments: Iterable[BPTTSegment], progress: Progress) -> Iterable[BPTTSegment]:
    for segment in segments:
        yield segment
        progress.advance(int(segment.real.sum()))


@dataclass(frozen=True)
class EvaluationText:
    """The text on which a model is evaluated.

    Attributes:
        words: Distinct words.
        split: Sentences.
        tokenizer: Name of the tokenizer.
        split_name: Name of the split of a prepared corpus; None for text.
        sentences: How the text was split into sentences; None for a corpus.
    """

    words: DistinctWords
    split: Split
    tokenizer: str | None
    split_name: str | None = None
    sentences: str | None = None


def _read_text(config: EvaluateConfig, model: Pretrained) -> EvaluationText:
    """Read the text files or the prepared corpus of a command."""
    tokenizer = model.config.text.tokenizer
    if len(config.text) == 1 and is_corpus(Path(config.text[0])):
        return _read_split(config, tokenizer)
    if config.split is not None:
        raise ConfigError(
            f"--split {config.split} selects a split of a prepared corpus, but "
            f"{', '.join(config.text)} is text, which is read completely. Omit it."
        )
    recorded = (model.training or {}).get(SENTENCES)
    sentences = config.sentences or ("split" if recorded == "split" else "line")
    reading = ReadingConfig(
        tokenizer=tokenizer,
        sentences=sentences,
        pretokenized=config.pretokenized,
        keep_blank_lines=config.keep_blank_lines,
        input_format=config.input_format,
        text_column=config.text_column,
    )
    check = TextCheck(
        tokenizer,
        pretokenized=config.pretokenized,
        remedy=CONVERT_REMEDY,
        language=model.attribution.get(LANGUAGE),
        # With --sentences line, the user knows that lines are sentences. Language-modeling
        # benchmarks keep the lines of the text.
        finds_paragraphs=config.sentences is None
        and sentences == "line"
        and not config.keep_blank_lines,
    )
    words, split = read_corpus(config.text, reading, check)
    if not split.n_sentences:
        raise ConfigError(f"{', '.join(config.text)}: the text has no sentences.")
    return EvaluationText(words, split, tokenizer, sentences=sentences)


def _read_split(config: EvaluateConfig, tokenizer: str | None) -> EvaluationText:
    """Open a split of a prepared corpus; by default test, or valid if there is no test split."""
    folder = config.text[0]
    reject_file_options(folder, config.input_format, config.text_column)
    if config.pretokenized or config.sentences is not None:
        raise ConfigError(
            f"{folder} is a prepared corpus, whose text is already split into sentences and "
            f"words. Omit {'--pretokenized' if config.pretokenized else '--sentences'}."
        )
    corpus = Corpus.open(Path(folder))
    _check_tokenizer(corpus.reading.tokenizer, tokenizer)
    name = config.split or ("test" if "test" in corpus.splits else "valid")
    if name not in corpus.splits:
        known = ", ".join(corpus.splits)
        raise ConfigError(
            f"{folder} has no split {name!r}. Available splits: {known}. Choose one with --split."
        )
    if config.split is None and name == "valid":
        logger.warning("%s has no split test. The split valid is evaluated.", folder)
    return EvaluationText(
        corpus.words, corpus.splits[name], corpus.reading.tokenizer, split_name=name
    )


def _check_tokenizer(corpus: str | None, model: str | None) -> None:
    """Warn if a corpus was tokenized differently than the text that the model was trained on."""
    names = [name or WhitespaceTokenizer.name for name in (corpus, model)]
    if names[0] != names[1]:
        logger.warning(
            "The corpus was prepared with the tokenizer %s, but the model has the tokenizer %s.",
            *names,
        )


def model_tables(model: Pretrained, words: DistinctWords) -> TokenTables:
    """Build the token tables that a language model needs to read and predict the given words.

    Args:
        model: Model with a softmax and a vocabulary.
        words: Distinct words of the text.

    Raises:
        ConfigError: The model has no softmax or no vocabulary.
    """
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
