"""The verb `pretrain`: a corpus and dials to a new model, then the loop."""

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
from elmo.evaluate.perplexity import model_tables
from elmo.formats import model_folder
from elmo.formats.pretrained import Pretrained
from elmo.model.initialization import bias_from_counts, initialize
from elmo.model.network import ELMoNetwork
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT, build_dictionary, fitted_width
from elmo.train.lm_trainable import LMTrainingJob
from elmo.train.loop import train
from elmo.train.run_corpus import open_corpus
from elmo.train.train_result import TrainResult


def pretrain(config: PretrainConfig) -> TrainResult:
    """Train a bidirectional language model on a text."""
    with open_corpus(config, config.corpus) as corpus:
        return train(pretrain_job(config, corpus))


def pretrain_job(config: PretrainConfig, corpus: Corpus) -> LMTrainingJob:
    """Make a network for a corpus, with its first weights."""
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
    given: InputConfig,
    lstm: LSTMConfig,
    loss: LossConfig,
    *,
    tokenizer: str | None,
    n_characters: int,
    max_characters: int,
    n_words: int,
) -> ModelConfig:
    """Give the shape of a model.

    Args:
        given: what a token is.
        lstm: the LSTM stacks.
        loss: the softmax.
        tokenizer: that split the corpus.
        n_characters: symbols of the character scheme, without the mask.
        max_characters: columns of a token row.
        n_words: of the vocabulary.
    """
    is_spelled = given.characters != "none"
    encoder = EncoderConfig(
        n_characters=n_characters + SHIFT if is_spelled else 0,
        character_dim=given.character_dim,
        filters=given.filters,
        activation=given.activation,
        n_highway=given.n_highway,
        # Words alone, as wide as the LSTM takes them, need no matrix between.
        project=is_spelled or given.word_dim != lstm.projection_dim,
        n_words=n_words + SHIFT if given.word_dim else 0,
        word_dim=given.word_dim,
    )
    return ModelConfig(
        TextConfig(tokenizer, given.characters, max_characters),
        encoder,
        lstm,
        n_softmax_words=n_words,
        softmax_cutoffs=loss.cutoffs if loss.softmax == "adaptive" else (),
    )


def _character_dictionary(given: InputConfig, corpus: Corpus) -> dict[str, int] | None:
    if given.characters in ("bytes", "none"):
        return None
    words = (word for part in corpus.words.parts() for word in part)
    return build_dictionary(words, map(int, corpus.counts), given.characters)


def _max_characters(given: InputConfig, corpus: Corpus) -> int:
    """Give the columns of a token row: those asked for, or what fits the text."""
    if given.max_characters is not None or given.characters == "none":
        return given.max_characters or TextConfig.max_characters
    words = (word for part in corpus.words.parts() for word in part)
    fitted = fitted_width(words, map(int, corpus.counts), given.characters)
    return max(fitted, *(width for width, _ in given.filters))
