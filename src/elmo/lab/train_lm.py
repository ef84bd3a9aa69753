"""The `lm train` command: creates a recurrent language model for a text and trains it."""

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import RecurrentModelConfig
from elmo.errors import interruption_note
from elmo.lab.loss_comparison import compare_loss
from elmo.lab.recurrent_folder import MODEL, read_model
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.recurrent_trainable import RecurrentTrainingJob
from elmo.lab.symbol_text import SymbolText, read_training_text
from elmo.lab.text_loss import evaluation_options, text_loss
from elmo.lab.train_lm_result import LMTrainResult
from elmo.text.characters import fitted_width
from elmo.train.devices import check_packages, run_device
from elmo.train.loop import train
from elmo.train.run_folder import kept_after_interruption


def train_lm(config: LMTrainConfig) -> LMTrainResult:
    """Train a recurrent language model on a text."""
    check_packages(config.run)
    return train_on_text(config, read_training_text(config))


def train_on_text(
    config: LMTrainConfig, text: SymbolText, ngrams: tuple[float, ...] | None = None
) -> LMTrainResult:
    """Train a recurrent language model on a text.

    Args:
        config: Options of the run.
        text: The text, which was read with the same options.
        ngrams: Return value of `baseline_losses`. Default: they are computed.
    """
    with interruption_note(partial(kept_after_interruption, config)):
        result = train(training_job(config, text))
    # A dry run has no model.
    return _compared(result, config, text, ngrams) if result.step else result


def _compared(
    result: LMTrainResult,
    config: LMTrainConfig,
    text: SymbolText,
    ngrams: tuple[float, ...] | None,
) -> LMTrainResult:
    """Evaluate the best model on the test text, and compare its loss with others."""
    folder = Path(result.out) / MODEL
    test = None
    if "test" in text.parts:
        model = read_model(folder, run_device(config.run))
        options = evaluation_options(config.segments)
        test = text_loss(model.network, model.symbols, text.parts["test"], **options)
    loss = result.best if test is None else test
    if loss is None:
        return result
    comparison = compare_loss(text, loss, ngrams)
    comparison.write(folder)
    return dataclasses.replace(result, test=test, comparison=comparison.table())


def training_job(config: LMTrainConfig, text: SymbolText) -> RecurrentTrainingJob:
    """Create a newly initialized network for a text, and return the training job."""
    network = RecurrentNetwork(
        config=model_config(config, text),
        regularization=config.regularization,
        kernel=config.run.kernel,
    )
    network.initialize(config.run.seed)
    network.set_symbols(text.symbols)
    network.center_vectors()
    if config.loss.unigram_bias:
        network.set_bias(torch.from_numpy(_counts(text)))
    return RecurrentTrainingJob(config, text, network)


def model_config(config: LMTrainConfig, text: SymbolText) -> RecurrentModelConfig:
    """Return the config of the model of a run; it depends on the symbols of the text."""
    width = 0
    if config.network.word_input == "characters":
        width = max(
            fitted_width(text.symbols.names, map(int, _counts(text)), "bytes"),
            *(width for width, _ in config.network.filters),
        )
    return RecurrentModelConfig(
        unit=config.symbols.unit,
        n_symbols=len(text.symbols),
        network=config.network,
        tokenizer=config.symbols.tokenizer,
        strip_lines=config.symbols.strip_lines,
        max_characters=width,
        softmax_cutoffs=_cutoffs(config, len(text.symbols)),
    )


def _counts(text: SymbolText) -> NDArray[np.int64]:
    """Return the number of occurrences of each symbol in the training text."""
    return np.bincount(text.parts["train"].ids, minlength=len(text.symbols))


def _cutoffs(config: LMTrainConfig, n_symbols: int) -> tuple[int, ...]:
    """Return the cutoffs of an adaptive softmax that are below the number of symbols."""
    if config.loss.softmax != "adaptive":
        return ()
    return tuple(cutoff for cutoff in config.loss.cutoffs if cutoff < n_symbols)
