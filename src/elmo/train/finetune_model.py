"""The `finetune` command: continues training a model of any supported format on a target text.

If the model has a softmax, words in the text that are missing from its vocabulary are added to it;
together they start as likely as they are frequent in the text. If the model has no softmax (the
published HDF5 files, ELMoForManyLangs), a new softmax over the vocabulary of the text is added, and
only this softmax is trained in the first steps.
"""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.config import CorpusConfig, FinetuneConfig, ModelConfig, OptimizerConfig
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError, FormatError, interruption_note
from elmo.evaluate.perplexity import model_tables
from elmo.formats.load import read, read_accumulators
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import RESET_SHARE, finetuning_record
from elmo.model.initialization import bias_from_counts, initialize_softmax
from elmo.model.network import ELMoNetwork, make_softmax
from elmo.text.characters import SHIFT
from elmo.text.line_splitter import splits_at_spaces
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.train import checkpoint
from elmo.train.devices import check_packages
from elmo.train.lm_trainable import LMTrainingJob
from elmo.train.loop import train
from elmo.train.new_word_row import NewWordRow, fit_new_word_row
from elmo.train.run_corpus import open_corpus
from elmo.train.run_folder import CHECKPOINTS, MODEL, kept_after_interruption, recorded_config
from elmo.train.run_plan import count_steps, default_warmup
from elmo.train.train_result import TrainResult

logger = logging.getLogger(__name__)

MAX_WARMUP_STEPS = 100
# A text with fewer words is quickly overfitted (advice of bilm-tf).
SMALL_TEXT = 10_000_000
INPUT_WORDS = "bilm.encoder.words.weight"
DEFAULT_OPTIMIZER = FinetuneConfig("", (), "").optimizer


def finetune(config: FinetuneConfig) -> TrainResult:
    """Fine-tune a model on a target text and report its perplexity before and after."""
    check_packages(config.run)
    with interruption_note(lambda: kept_after_interruption(config)):
        return _finetune(config)


def _finetune(config: FinetuneConfig) -> TrainResult:
    pretrained = read(config.model, options=config.options, vocab=config.old_vocab)
    options = _with_model_tokenizer(pretrained, config.corpus)
    _check_tokenizer(config, options.reading.tokenizer, pretrained, "Omit --tokenizer")
    with open_corpus(config, options) as corpus:
        tokenizer = pretrained.config.text.tokenizer
        remedy = f"Prepare the text again with --tokenizer {tokenizer}"
        _check_tokenizer(config, corpus.reading.tokenizer, pretrained, remedy)
        job = finetune_job(config, pretrained, corpus)
        n_words = corpus.splits["train"].n_words
        if n_words < SMALL_TEXT:
            logger.warning(
                "The text has %s words, fewer than 10 million. Train for a few epochs only and "
                "watch the held-out perplexity.%s",
                f"{n_words:,}",
                "" if config.run.patience else " --patience 3 enables early stopping.",
            )
        return train(job)


def _check_tokenizer(
    config: FinetuneConfig, tokenizer: str | None, model: Pretrained, remedy: str
) -> None:
    """Raise an error if the text is split into other words than those the model was trained on.

    A resumed run of an earlier version gets a warning instead. `remedy` states how to split the
    text with the tokenizer of the model.
    """
    expected = model.config.text.tokenizer
    # Models of older formats record no tokenizer: their words are unknown.
    if splits_at_spaces(expected) or tokenizer == expected:
        return
    message = (
        f"The text is split with the tokenizer {tokenizer or WhitespaceTokenizer.name}, but the "
        f"model was trained on words of the tokenizer {expected}. {remedy}; add --pretokenized if "
        "the text is already split into such words."
    )
    if not checkpoint.exists(Path(config.out) / CHECKPOINTS):
        raise ConfigError(message)
    logger.warning("%s", message)


def _with_model_tokenizer(model: Pretrained, corpus: CorpusConfig) -> CorpusConfig:
    """Use the tokenizer saved in the model, unless the corpus options specify one."""
    if corpus.reading.tokenizer is not None or model.config.text.tokenizer is None:
        return corpus
    reading = dataclasses.replace(corpus.reading, tokenizer=model.config.text.tokenizer)
    return dataclasses.replace(corpus, reading=reading)


def finetune_job(config: FinetuneConfig, pretrained: Pretrained, corpus: Corpus) -> LMTrainingJob:
    """Adapt a model to the vocabulary of a corpus and return the training job."""
    pretrained = _without_cache(pretrained)
    tokenizer = corpus.reading.tokenizer
    if pretrained.config.text.tokenizer is None and tokenizer is not None:
        pretrained = pretrained.with_tokenizer(tokenizer)
    config = _with_reset_share(config, pretrained)
    record = finetuning_record(_base_name(config.model), pretrained.training)
    pretrained = dataclasses.replace(pretrained, training=record)
    is_new = not pretrained.config.n_softmax_words
    if is_new:
        model = _with_new_softmax(pretrained, corpus, config)
    else:
        model = _with_new_words(pretrained, corpus, config)
    if not is_new and not config.regularization.tied and _is_tied(model):
        logger.warning(
            "The softmax weights of this model are tied to its input word embeddings. Without "
            "--tied, the two are trained separately."
        )
    config, accumulators = _with_optimizer(config, model)
    config = _with_warmup(config, corpus)
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


def _base_name(model: str) -> str:
    """Return the name of a model for the record; paths are shortened to the name of the folder."""
    path = Path(model).expanduser()
    if not path.exists():  # name of a bundled or downloaded model, or hub id
        return model
    path = path.resolve()
    return path.parent.name if path.name == MODEL else path.name


def _with_reset_share(config: FinetuneConfig, model: Pretrained) -> FinetuneConfig:
    """Use the fraction of reset sentences from the model's training, unless `--reset` is given."""
    if config.stream.reset is not None:
        return config
    share = (model.training or {}).get(RESET_SHARE, 0.0)
    if not isinstance(share, int | float):
        raise FormatError(
            f"{config.model}: {RESET_SHARE} in the training record is {share!r}, expected a number."
        )
    return dataclasses.replace(config, stream=dataclasses.replace(config.stream, reset=share))


def _is_tied(model: Pretrained) -> bool:
    """Whether the softmax weights are equal to the input word embeddings."""
    words, softmax = model.weights.get(INPUT_WORDS), model.weights.get("softmax.weight")
    return words is not None and softmax is not None and torch.equal(words[SHIFT:], softmax)


def _with_optimizer(
    config: FinetuneConfig, model: Pretrained
) -> tuple[FinetuneConfig, dict[str, Tensor] | None]:
    """Continue with the Adagrad state of a bilm-tf checkpoint, unless another optimizer is set.

    Returns the updated options, and the accumulators by parameter name; None without a state.
    """
    accumulators = None
    if config.tune.keep_optimizer:
        accumulators = read_accumulators(config.model, options=config.options)
    if accumulators is None:
        return config, None
    if config.optimizer == DEFAULT_OPTIMIZER:
        config = dataclasses.replace(config, optimizer=OptimizerConfig())
        logger.warning(
            "The checkpoint contains Adagrad accumulators. Training continues with Adagrad and the "
            "settings of bilm-tf."
        )
    elif config.optimizer.optimizer != "adagrad":
        logger.warning(
            "The Adagrad accumulators of the checkpoint are not used, because another optimizer "
            "is set."
        )
        return config, None
    return config, _extend_accumulators(accumulators, model.weights)


def _with_warmup(config: FinetuneConfig, corpus: Corpus) -> FinetuneConfig:
    """Set the number of warmup steps, if it is not given.

    With the default for long runs, a run on a small text would end during warmup. A run that is
    resumed keeps its value, also if it is made longer.
    """
    if config.optimizer.warmup_steps is not None:
        return config
    recorded = recorded_config(Path(config.out), FinetuneConfig)
    warmup = None if recorded is None else recorded.optimizer.warmup_steps
    if warmup is None:
        warmup = default_warmup(_n_steps(config, corpus), MAX_WARMUP_STEPS)
    optimizer = dataclasses.replace(config.optimizer, warmup_steps=warmup)
    return dataclasses.replace(config, optimizer=optimizer)


def _without_cache(model: Pretrained) -> Pretrained:
    """Remove cached token vectors, which become outdated as soon as the weights change."""
    encoder = model.config.encoder
    if not encoder.n_words or encoder.word_role != "cache":
        return model
    encoder = dataclasses.replace(encoder, n_words=0, word_dim=0, word_role="join")
    weights = {n: v for n, v in model.weights.items() if n != INPUT_WORDS}
    config = dataclasses.replace(model.config, encoder=encoder)
    return dataclasses.replace(model, config=config, weights=weights, words=None)


def _with_new_softmax(model: Pretrained, corpus: Corpus, config: FinetuneConfig) -> Pretrained:
    """Return the model with a newly initialized softmax over the vocabulary of the corpus."""
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
    """Return the model with new words from the text added to its vocabulary.

    The new words and `<UNK>` start with the same softmax row, which makes them together as likely
    as unknown words are in the text. The log of the relative frequency of each one is added to its
    bias.
    """
    if model.vocabulary is None:
        raise ConfigError(
            f"This {model.origin} has a softmax but no vocabulary. Give its vocabulary file with "
            "--old-vocab."
        )
    if config.loss.softmax == "adaptive" and not model.config.softmax_cutoffs:
        raise ConfigError(
            f"This {model.origin} has a full softmax. Fine-tune it with --softmax full or sampled."
        )
    min_count = config.tune.new_words
    if not min_count:
        return model
    words, counts = _new_words(model.vocabulary, corpus, min_count)
    if words and model.config.softmax_cutoffs:
        logger.warning(
            "Words cannot be added to an adaptive softmax. %d new words are treated as <UNK>.",
            len(words),
        )
        return model
    if not words:
        return model
    unknown = model.vocabulary.ids[UNKNOWN]
    vocabulary = Vocabulary([*model.vocabulary.words, *words])
    n_unknown = int(corpus.vocabulary_counts(vocabulary)[unknown])
    row = _new_word_row(model, corpus, config)
    ids = [unknown, *range(len(model.vocabulary), len(vocabulary))]
    smoothed = torch.tensor([n_unknown, *counts], dtype=torch.float64) + 0.5
    weight = functional.pad(model.weights["softmax.weight"], (0, 0, 0, len(words)))
    bias = functional.pad(model.weights["softmax.bias"], (0, len(words)))
    weight[ids], bias[ids] = row.weight, row.bias + (smoothed / smoothed.sum()).log().float()
    grown = {"softmax.weight": weight, "softmax.bias": bias}
    shape: ModelConfig = dataclasses.replace(model.config, n_softmax_words=len(vocabulary))
    input_words = model.words
    if input_words is not None and dict(input_words) == model.vocabulary.ids:
        # Input and softmax share their words: new words start with the input vector of <UNK>.
        table = model.weights[INPUT_WORDS]
        fresh = table[unknown + SHIFT].expand(len(words), -1)
        grown[INPUT_WORDS] = torch.cat([table, fresh])
        encoder = dataclasses.replace(shape.encoder, n_words=shape.encoder.n_words + len(words))
        shape = dataclasses.replace(shape, encoder=encoder)
        input_words = vocabulary.ids
    logger.info(
        "%d new words are added to the vocabulary of %d words.", len(words), len(model.vocabulary)
    )
    return dataclasses.replace(
        model,
        config=shape,
        weights={**model.weights, **grown},
        vocabulary=vocabulary,
        words=input_words,
    )


def _new_word_row(model: Pretrained, corpus: Corpus, config: FinetuneConfig) -> NewWordRow:
    """Return the softmax row that is shared by the new words and `<UNK>`."""
    assert model.vocabulary is not None
    unknown = model.vocabulary.ids[UNKNOWN]
    if config.run.dry_run:  # the fit takes time, and no values are reported
        return NewWordRow(
            model.weights["softmax.weight"][unknown], model.weights["softmax.bias"][unknown]
        )
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    return fit_new_word_row(
        network,
        model_tables(model, corpus.words),
        corpus.splits["train"],
        unknown=unknown,
        keep_weight=_is_tied(model),
    )


def _new_words(known: Vocabulary, corpus: Corpus, min_count: int) -> tuple[list[str], list[int]]:
    """Return the unknown words that occur at least `min_count` times, and their counts."""
    counts = np.asarray(corpus.counts)
    n_frequent = int(np.searchsorted(-counts, -min_count, side="right"))
    new = [
        (word, int(counts[number]))
        for number, word in enumerate(corpus.words.strings(0, n_frequent))
        if word not in known.ids
    ]
    return [word for word, _ in new], [count for _, count in new]


def _extend_accumulators(
    accumulators: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Extend the Adagrad accumulators with their initial value for new softmax rows."""
    extended = {}
    for name, value in accumulators.items():
        missing = len(weights[name]) - len(value)
        fresh = value.new_full((missing, *value.shape[1:]), OptimizerConfig.accumulator)
        extended[name] = torch.cat([value, fresh])
    return extended


def _softmax_steps(config: FinetuneConfig, corpus: Corpus) -> int:
    """Return the number of initial steps in which only the softmax is trained."""
    if config.tune.softmax_steps is not None:
        return config.tune.softmax_steps
    return max(1, _n_steps(config, corpus) // 10)


def _n_steps(config: FinetuneConfig, corpus: Corpus) -> int:
    """Return the number of steps in the run."""
    return count_steps(corpus.n_train_pairs, config.stream, config.run)
