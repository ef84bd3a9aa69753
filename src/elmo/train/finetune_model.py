"""The verb `finetune`: any readable model, made ready for a target text, then the loop.

A model with a softmax goes on with it; words of the text that are new to it share what it gave to
`<UNK>`. A model without one (the published HDF5 files, ELMoForManyLangs) gets a new softmax over
the text's vocabulary, which learns alone at first.
"""

import dataclasses
import logging
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from elmo.config import CorpusConfig, FinetuneConfig, ModelConfig, OptimizerConfig
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import model_tables
from elmo.formats.load import read, read_accumulators
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import RESET_SHARE
from elmo.model.initialization import bias_from_counts, initialize_softmax
from elmo.model.network import ELMoNetwork, make_softmax
from elmo.text.characters import SHIFT
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.train.lm_trainable import LMTrainingJob
from elmo.train.loop import train
from elmo.train.run_corpus import opened_corpus
from elmo.train.run_plan import count_steps
from elmo.train.train_result import TrainResult

logger = logging.getLogger(__name__)

# Below this many words a text is learned by heart before it teaches anything (bilm-tf's advice).
SMALL_TEXT = 10_000_000
INPUT_WORDS = "bilm.encoder.words.weight"
# What the verb takes where nothing else is said.
TUNING_OPTIMIZER = FinetuneConfig("", (), "").optimizer


def finetune(config: FinetuneConfig) -> TrainResult:
    """Go on with any readable model on a target text, and say what it brought."""
    found = read(config.model, options=config.options, vocab=config.old_vocab)
    with opened_corpus(config, _reading_of(found, config.corpus)) as corpus:
        job = tuning_job(config, found, corpus)
        n_words = corpus.splits["train"].n_words
        if n_words < SMALL_TEXT:
            logger.warning(
                "the text has %s words, fewer than 10 million: keep to a few epochs and watch the "
                "held-out perplexity%s",
                f"{n_words:,}",
                "" if config.run.patience else "; --patience 3 would stop early",
            )
        return train(job)


def _reading_of(model: Pretrained, corpus: CorpusConfig) -> CorpusConfig:
    """Split text as the model records it, unless another way is asked for."""
    if corpus.reading.tokenizer is not None or model.config.text.tokenizer is None:
        return corpus
    reading = dataclasses.replace(corpus.reading, tokenizer=model.config.text.tokenizer)
    return dataclasses.replace(corpus, reading=reading)


def tuning_job(config: FinetuneConfig, found: Pretrained, corpus: Corpus) -> LMTrainingJob:
    """Make a model ready for a corpus.

    Args:
        config: of the run.
        found: the model as it was read.
        corpus: the target text.
    """
    found = _without_cache(found)
    config = _with_state(config, found)
    is_new = not found.config.n_softmax_words
    if is_new:
        model = _with_new_softmax(found, corpus, config)
    else:
        model = _with_new_words(found, corpus, config)
    if not is_new and not config.regularization.tied and _is_tied(model):
        logger.warning("the softmax is tied to the input words: without --tied they will part")
    config, accumulators = _with_optimizer(config, model)
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    steps = _softmax_steps(config, corpus) if is_new else 0
    return LMTrainingJob(
        config,
        corpus,
        network,
        model_tables(model, corpus.words),
        model,
        softmax_steps=steps,
        compare=True,
        accumulators=accumulators,
    )


def _with_state(config: FinetuneConfig, model: Pretrained) -> FinetuneConfig:
    """Begin sentences as the model knows it, unless a share is asked for."""
    if config.stream.reset is not None:
        return config
    share = (model.training or {}).get(RESET_SHARE, 0.0)
    return dataclasses.replace(config, stream=dataclasses.replace(config.stream, reset=share))


def _is_tied(model: Pretrained) -> bool:
    words, softmax = model.weights.get(INPUT_WORDS), model.weights.get("softmax.weight")
    return words is not None and softmax is not None and torch.equal(words[SHIFT:], softmax)


def _with_optimizer(
    config: FinetuneConfig, model: Pretrained
) -> tuple[FinetuneConfig, dict[str, Tensor] | None]:
    """Go on with the Adagrad of a bilm-tf checkpoint, unless another optimiser was asked for."""
    sums = None
    if config.tune.keep_optimizer:
        sums = read_accumulators(config.model, options=config.options)
    if sums is None:
        return config, None
    if config.optimizer == TUNING_OPTIMIZER:
        config = dataclasses.replace(config, optimizer=OptimizerConfig())
        logger.warning("the checkpoint holds Adagrad's sums: going on with bilm-tf's Adagrad")
    elif config.optimizer.optimizer != "adagrad":
        logger.warning("the checkpoint's Adagrad sums are not used: another optimiser is asked for")
        return config, None
    return config, _longer(sums, model.weights)


def _without_cache(model: Pretrained) -> Pretrained:
    """Leave out token vectors computed beforehand: they would not follow the weights."""
    encoder = model.config.encoder
    if not encoder.n_words or encoder.word_role != "cache":
        return model
    encoder = dataclasses.replace(encoder, n_words=0, word_dim=0, word_role="join")
    weights = {n: v for n, v in model.weights.items() if n != INPUT_WORDS}
    config = dataclasses.replace(model.config, encoder=encoder)
    return dataclasses.replace(model, config=config, weights=weights, words=None)


def _with_new_softmax(model: Pretrained, corpus: Corpus, config: FinetuneConfig) -> Pretrained:
    """Give a model a softmax over the vocabulary of a corpus, as it is before training."""
    vocabulary = corpus.vocabulary
    cutoffs = config.loss.cutoffs if config.loss.softmax == "adaptive" else ()
    shape = dataclasses.replace(
        model.config, n_softmax_words=len(vocabulary), softmax_cutoffs=cutoffs
    )
    softmax = make_softmax(shape)
    assert softmax is not None
    initialize_softmax(softmax, torch.Generator().manual_seed(config.run.seed))
    if config.loss.unigram_bias:
        counts = corpus.vocabulary_counts(vocabulary)
        bias_from_counts(softmax, torch.from_numpy(counts))
    fresh = {f"softmax.{name}": value.detach() for name, value in softmax.state_dict().items()}
    weights = {**model.weights, **fresh}
    return dataclasses.replace(model, config=shape, weights=weights, vocabulary=vocabulary)


def _with_new_words(model: Pretrained, corpus: Corpus, config: FinetuneConfig) -> Pretrained:
    """Let words of the text join the vocabulary.

    A new word starts with the row of `<UNK>` and its share of what `<UNK>` was: the logarithm of
    its count among the new words is added to the bias, so that together they are as likely as
    `<UNK>` was.
    """
    if model.vocabulary is None:
        raise ConfigError(
            f"this {model.origin} has a softmax but no vocabulary: name the file with --old-vocab"
        )
    if config.loss.softmax == "adaptive" and not model.config.softmax_cutoffs:
        raise ConfigError(
            f"this {model.origin} has a full softmax: fine-tune it with --softmax full or sampled"
        )
    min_count = config.tune.new_words
    if not min_count:
        return model
    words, counts = _new_words(model.vocabulary, corpus, min_count)
    if words and model.config.softmax_cutoffs:
        logger.warning("an adaptive softmax keeps its words: %d new ones are <UNK>", len(words))
        return model
    if not words:
        return model
    unknown = model.vocabulary.ids[UNKNOWN]
    weight, bias = model.weights["softmax.weight"], model.weights["softmax.bias"]
    shares = torch.tensor(counts, dtype=torch.float64)
    shares = (shares / shares.sum()).log().float()
    grown = {
        "softmax.weight": torch.cat([weight, weight[unknown].expand(len(words), -1)]),
        "softmax.bias": torch.cat([bias, bias[unknown] + shares]),
    }
    vocabulary = Vocabulary([*model.vocabulary.words, *words])
    shape: ModelConfig = dataclasses.replace(model.config, n_softmax_words=len(vocabulary))
    input_words = model.words
    if input_words is not None and dict(input_words) == model.vocabulary.ids:
        # Input and softmax have the same words: the new ones are read as <UNK> was, at first.
        table = model.weights[INPUT_WORDS]
        fresh = table[unknown + SHIFT].expand(len(words), -1)
        grown[INPUT_WORDS] = torch.cat([table, fresh])
        encoder = dataclasses.replace(shape.encoder, n_words=shape.encoder.n_words + len(words))
        shape = dataclasses.replace(shape, encoder=encoder)
        input_words = vocabulary.ids
    logger.info("%d new words join the vocabulary of %d", len(words), len(model.vocabulary))
    return dataclasses.replace(
        model,
        config=shape,
        weights={**model.weights, **grown},
        vocabulary=vocabulary,
        words=input_words,
    )


def _new_words(known: Vocabulary, corpus: Corpus, min_count: int) -> tuple[list[str], list[int]]:
    """Give words that are frequent enough and not known, with their counts."""
    counts = np.asarray(corpus.counts)
    n_frequent = int(np.searchsorted(-counts, -min_count, side="right"))
    found = [
        (word, int(counts[number]))
        for number, word in enumerate(corpus.words.strings(0, n_frequent))
        if word not in known.ids
    ]
    return [word for word, _ in found], [count for _, count in found]


def _longer(sums: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Begin the sums of new softmax rows as Adagrad begins."""
    grown = {}
    for name, value in sums.items():
        missing = len(weights[name]) - len(value)
        fresh = value.new_full((missing, *value.shape[1:]), OptimizerConfig.accumulator)
        grown[name] = torch.cat([value, fresh])
    return grown


def _softmax_steps(config: FinetuneConfig, corpus: Corpus) -> int:
    if config.tune.softmax_steps is not None:
        return config.tune.softmax_steps
    return max(1, count_steps(corpus.splits["train"].n_pairs, config.stream, config.run) // 10)
