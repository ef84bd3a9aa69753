"""Trains a task model once per seed and evaluates it on the test set."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.errors import ConfigError, interruption_note
from elmo.files import atomic_path
from elmo.kernels.device import move
from elmo.tasks.core.example import Example
from elmo.tasks.core.frozen_layers import BlankLayers, LayerSource, named_layers, stored_layers
from elmo.tasks.core.loaded_elmo import LoadedELMo, elmo_of, load_elmo
from elmo.tasks.files.word_vectors import read_word_vectors
from elmo.tasks.fitted.build import build, layers_folder, splitter, warn_about_tokenizer
from elmo.tasks.fitted.fitted_task import CONFIG, read_record
from elmo.tasks.fitted.load_fitted import Fitted, load_fitted_task
from elmo.tasks.fitted.lookup_model import LookupModel, lookup_signature
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.reading.load_examples import indexed_examples, read_examples, training_examples
from elmo.tasks.registry.task_classes import check_labels, task_for
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_rows import task_row
from elmo.tasks.training.fit_result import RESULTS, FitResult, SeedRun
from elmo.tasks.training.mix_plot import PLOT, draw_mixes
from elmo.tasks.training.parallel_seeds import run_in_parallel
from elmo.tasks.training.task_trainable import TaskRun, TaskTrainingJob
from elmo.train import checkpoint
from elmo.train.devices import run_device
from elmo.train.loop import train
from elmo.train.run_folder import (
    CHECKPOINTS,
    MODEL,
    check_same_run,
    kept_after_interruption,
    locked,
    write_config,
)


def fit(config: TaskConfig) -> FitResult | TaskRun:
    """Train a model for each seed and evaluate it on the test set, if there is one."""
    if config.run.dry_run and task_row(config.task).is_lookup:
        note = f"dry run, nothing written; {config.task} needs no training"
        return TaskRun(config.out, 0, 0.0, None, note)
    if task_row(config.task).is_lookup:  # these have no checkpoints
        return _fit(config)
    with interruption_note(lambda: kept_after_interruption(config)):
        return _fit(config)


def _fit(config: TaskConfig) -> FitResult | TaskRun:
    elmo = load_elmo(config.elmo)
    warn_about_tokenizer(config, elmo_of(elmo))
    if config.run.dry_run:
        return train(_job(config, elmo))
    configs = [_config_of_seed(config, number) for number in range(config.seeds)]
    if min(config.parallel_seeds, config.seeds) > 1:
        # Read and compute shared data before the runs start, so that errors are reported only once.
        _job(configs[0], elmo)
        _test_examples(configs[0], elmo)
        runs = run_in_parallel(fit_and_measure, configs, config.parallel_seeds)
    else:
        runs = []
        for number, seed_config in enumerate(configs):
            if number and config.elmo.use == "tuned":
                elmo = load_elmo(config.elmo)  # the previous run has trained the model
            runs.append(fit_and_measure(seed_config, elmo))
    metrics = [run.pop("metric") for run in runs]
    result = FitResult(config.out, metrics[0], tuple(runs))
    with atomic_path(Path(config.out) / RESULTS) as partial:
        partial.write_text(json.dumps(result.to_dict(), indent=1) + "\n")
    draw_mixes(Path(config.out) / PLOT, result.shares(), named_layers(config.elmo.layers))
    return result


def _config_of_seed(config: TaskConfig, number: int) -> TaskConfig:
    """Return the config for a single seed."""
    if config.seeds == 1:
        return config
    run = dataclasses.replace(config.run, seed=config.run.seed + number)
    return dataclasses.replace(
        config,
        run=run,
        out=str(Path(config.out) / f"seed-{run.seed}"),
        cache=str(layers_folder(config)),
        seeds=1,
        parallel_seeds=1,
    )


def fit_and_measure(config: TaskConfig, elmo: LoadedELMo | None = None) -> SeedRun:
    """Train and evaluate with one seed; return the results. ELMo is loaded by default."""
    elmo = elmo or load_elmo(config.elmo)
    # Read the test set before training, so that errors in it are reported early.
    test = _test_examples(config, elmo)
    fitted = fit_once(config, elmo)
    return {
        "out": config.out,
        "seed": config.run.seed,
        "development": fitted.facts.get("development"),
        "test": None if test is None else fitted.scores(test),
        "mixes": fitted.facts.get("mixes"),
        "metric": fitted.task.metric,
    }


def fit_once(config: TaskConfig, elmo: LoadedELMo | None) -> Fitted:
    """Fit a task with one seed: train it and return the best model, or build an index."""
    if task_row(config.task).is_lookup:
        return _fit_lookup(config, elmo)
    sys.stderr.write(f"{train(_job(config, elmo))}\n")
    return load_fitted_task(Path(config.out) / MODEL, run_device(config.run), elmo)


def _fit_lookup(config: TaskConfig, elmo: LoadedELMo | None) -> Fitted:
    """Build and save the lookup model of a config, or load it if it already exists."""
    folder, split = Path(config.out), splitter(config, elmo_of(elmo))
    with locked(folder):
        check_same_run(folder, config)
        examples = indexed_examples(config.examples, split, config.run.seed, config.task)
        if not (folder / MODEL / CONFIG).is_file():
            model = LookupModel.from_examples(config, elmo, examples)
            if config.examples.dev is not None:
                dev = read_examples(config.examples, config.examples.dev, split, task=config.task)
                model.facts["development"] = model.scores(dev)
            write_config(folder, config)
            model.save(folder / MODEL)
    fitted = load_fitted_task(folder / MODEL, run_device(config.run), elmo)
    if fitted.facts.get("examples") != lookup_signature(examples):
        raise ConfigError(
            f"The lookup model in {folder} was built from other examples or by an earlier "
            "version. Use another --out."
        )
    return fitted


def _job(config: TaskConfig, elmo: LoadedELMo | None) -> TaskTrainingJob:
    """Read the examples of a run and build its model."""
    split = splitter(config, elmo_of(elmo))
    examples, dev = training_examples(config.examples, split, config.run.seed, config.task)
    return TaskTrainingJob(prepare(config, elmo, examples, dev), examples, dev)


def prepare(
    config: TaskConfig,
    elmo: LoadedELMo | None,
    train: Sequence[Example[object]],
    dev: Sequence[Example[object]],
) -> TrainedModel:
    """Return an untrained model with the labels and word vectors that the examples need."""
    task = task_for(config.task, [*train, *dev], config.task_options)
    labels = _labels_of_run(config, task.labels(train))
    check_labels(task, labels, task.labels(dev))
    parts = [part for example in [*train, *dev] for part in task.split_example(example)]
    texts = [text for part in parts for text in part.texts]
    if elmo is not None:
        elmo.elmo.script_check.check(texts)
    layers: LayerSource | None = None
    if elmo is not None and config.run.dry_run:
        layers = BlankLayers(elmo.elmo, config.elmo.layers)
    elif elmo is not None and config.elmo.use == "frozen":
        move(elmo.elmo, run_device(config.run))
        layers = stored_layers(
            elmo.elmo, elmo.fingerprint, config.elmo.layers, texts, layers_folder(config)
        )
    word_vectors = None
    if config.word_features.word_vectors is not None:
        seen = {form for text in texts for word in text for form in (word, word.lower())}
        word_vectors = read_word_vectors(
            Path(config.word_features.word_vectors), seen, config.word_features.max_word_vectors
        )
    built = build(config, task, labels, elmo, layers=layers, word_vectors=word_vectors)
    return TrainedModel(config, task, labels, built)


def _labels_of_run(config: TaskConfig, labels: list[str]) -> list[str]:
    """Return the labels of the run to resume, or the given ones if there is none.

    Runs begun by earlier versions can only predict the tags that occur in their training set.
    """
    folder = Path(config.out)
    if checkpoint.exists(folder / CHECKPOINTS) and (folder / MODEL / CONFIG).is_file():
        recorded = read_record(folder / MODEL).labels
        # The run can be of other examples, which is an error when its checkpoint is loaded.
        if recorded and set(recorded) <= set(labels):
            return recorded
    return labels


def _test_examples(config: TaskConfig, elmo: LoadedELMo | None) -> list[Example[object]] | None:
    """Read the test set; return None if there is none."""
    if config.examples.test is None:
        return None
    split = splitter(config, elmo_of(elmo))
    return read_examples(config.examples, config.examples.test, split, task=config.task)
