"""The `pretrain` command: creates a new model for a corpus and trains it."""

from functools import partial

import torch

from elmo.config import (
    EncoderConfig,
    InputConfig,
    LossConfig,
    LSTMConfig,
    ModelConfig,
    PretrainConfig,
    TextConfig,
)
from elmo.corpus.shards import Corpus
from elmo.errors import interruption_note
from elmo.evaluate.perplexity import model_tables
from elmo.formats import model_folder
from elmo.formats.pretrained import Pretrained
from elmo.model.initialization import bias_from_counts, initialize
from elmo.model.network import ELMoNetwork
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT, build_dictionary, fitted_width
from elmo.train.devices import check_packages
from elmo.train.lm_trainable import LMTrainingJob
from elmo.train.loop import train
from elmo.train.run_corpus import open_corpus
from elmo.train.run_folder import kept_after_interruption
from elmo.train.train_result import TrainResult


def pretrain(config: PretrainConfig) -> TrainResult:
    """Train a new bidirectional language model on a text."""
    check_packages(config.run)
    note = partial(kept_after_interruption, config)
    with interruption_note(note), open_corpus(config, config.corpus) as corpus:
        return train(pretrain_job(config, corpus))


def pretrain_job(config: PretrainConfig, corpus: Corpus) -> LMTrainingJob:
    """Create a newly initialized network for a corpus, and return the training job."""
    vocabulary = corpus.vocabulary
    characters = _character_dictionary(config.input, corpus)
    shape = model_config(
        config.input,
        config.lstm,
        config.loss,
        tokenizer=corpus.reading.tokenizer,
        n_characters=len(characters) if characters is not None else N_BYTE_CHARACTERS,
        max_characters=_max_characters(config.input, corpus),
        n_words=len(vocabulary),
    )
    network = ELMoNetwork(config=shape)
    initialize(network, config.run.seed)
    if config.loss.unigram_bias:
        assert network.softmax is not None
        counts = corpus.vocabulary_counts(vocabulary)
        bias_from_counts(network.softmax, torch.from_numpy(counts))
    model = Pretrained(
        shape,
        {name: value.detach() for name, value in network.state_dict().items()},
        model_folder.ORIGIN,
        vocabulary,
        characters=characters,
        words=vocabulary.ids if shape.encoder.n_words else None,
    )
    return LMTrainingJob(config, corpus, network, model_tables(model, corpus.words), model)


def model_config(
    inputs: InputConfig,
    lstm: LSTMConfig,
    loss: LossConfig,
    *,
    tokenizer: str | None,
    n_characters: int,
    max_characters: int,
    n_words: int,
) -> ModelConfig:
    """Return the configuration of a new model.

    `n_characters` is the number of symbols in the character scheme, excluding padding, and
    `max_characters` the number of character positions per token.
    """
    has_characters = inputs.characters != "none"
    encoder = EncoderConfig(
        n_characters=n_characters + SHIFT if has_characters else 0,
        character_dim=inputs.character_dim,
        filters=inputs.filters,
        activation=inputs.activation,
        n_highway=inputs.n_highway,
        # Word embeddings as wide as the LSTM input need no projection.
        project=has_characters or inputs.word_dim != lstm.projection_dim,
        n_words=n_words + SHIFT if inputs.word_dim else 0,
        word_dim=inputs.word_dim,
    )
    return ModelConfig(
        TextConfig(tokenizer, inputs.characters, max_characters),
        encoder,
        lstm,
        n_softmax_words=n_words,
        softmax_cutoffs=loss.cutoffs if loss.softmax == "adaptive" else (),
    )


def _character_dictionary(inputs: InputConfig, corpus: Corpus) -> dict[str, int] | None:
    """Build a character dictionary from the corpus; return None if the scheme does not need one."""
    if inputs.characters in ("bytes", "none"):
        return None
    words = (word for part in corpus.words.parts() for word in part)
    return build_dictionary(words, map(int, corpus.counts), inputs.characters)


def _max_characters(inputs: InputConfig, corpus: Corpus) -> int:
    """Return the configured number of character positions per token, or one that fits the text."""
    if inputs.max_characters is not None or inputs.characters == "none":
        return inputs.max_characters or TextConfig.max_characters
    words = (word for part in corpus.words.parts() for word in part)
    fitted = fitted_width(words, map(int, corpus.counts), inputs.characters)
    return max(fitted, *(width for width, _ in inputs.filters))
