"""The command `elmo evaluate`: perplexity of a model on a text or on a split of a corpus."""

import dataclasses
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.config import EvaluateConfig, ReadingConfig, RegularizationConfig
from elmo.config.bounds import require_at_least_one
from elmo.corpus.bptt_segments import BPTTSegment, read_once
from elmo.corpus.character_counts import character_ratio
from elmo.corpus.sentence_reader import read_corpus, reject_file_options
from elmo.corpus.shards import Corpus, DistinctWords, Split, is_corpus
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import Perplexity, measure, model_tables, perplexity_of
from elmo.formats.attribution import LANGUAGE
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import SENTENCES
from elmo.kernels.device import default_device, move
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.network import ELMoNetwork
from elmo.progress import Progress
from elmo.text.korean import is_decomposed
from elmo.text.line_splitter import CONVERT_REMEDY, TextCheck, splits_at_spaces
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.vocabulary import UNKNOWN, Vocabulary

logger = logging.getLogger(__name__)

# If more than this fraction of the words is out of vocabulary, the text was probably not tokenized
# like the training text.
MAX_UNKNOWN_RATE = 0.3


@dataclass(frozen=True)
class EvaluateResult:
    """Result of `evaluate`.

    `state` is "reset" or "carry". `split` is that of a prepared corpus, `sentences` how a text was
    split into sentences, "line" or "split". Words outside of the common vocabulary counted as
    unknown.
    """

    perplexity: Perplexity
    model: str
    state: str
    split: str | None
    sentences: str | None
    n_sentences: int
    common_vocab: str | None

    def to_dict(self) -> dict[str, object]:
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
    require_at_least_one(config, "batch_size", "unroll")
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
            BidirectionalLM(bilm=network.bilm, regularization=RegularizationConfig()),
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
    """The text, or the split of a prepared corpus, on which a model is evaluated."""

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
