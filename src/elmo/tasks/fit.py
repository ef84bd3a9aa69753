"""Training a model for a task, once for each seed, and what it scores on the test part."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.config import TaskConfig
from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint
from elmo.files import atomic_path
from elmo.kernels.device import move
from elmo.tasks.build import build, layers_folder, load_elmo, splitter
from elmo.tasks.examples import Example
from elmo.tasks.fitted_task import FittedTask, load_fitted_task
from elmo.tasks.frozen_layers import BlankLayers, LayerSource, named_layers, stored_layers
from elmo.tasks.load_examples import read_examples, training_examples
from elmo.tasks.lookup_model import MEMORIES, LookupModel, fit_lookup
from elmo.tasks.mix_plot import PICTURE, draw_mixes
from elmo.tasks.parallel_seeds import run_in_parallel
from elmo.tasks.readers.raw_text import TrackedSplit
from elmo.tasks.scores.label_scores import Spread, mean_and_deviation
from elmo.tasks.task_trainable import TaskRun, TaskTrainingJob
from elmo.tasks.task_types.task_registry import task_for
from elmo.tasks.word_vectors import read_word_vectors
from elmo.train.devices import make_fabric
from elmo.train.loop import train
from elmo.train.run_folder import MODEL

RESULTS = "results.json"
PARTS = ("development", "test")


@dataclass(frozen=True)
class FitResult:
    """What all seeds came to.

    Attributes:
        out: folder of the runs.
        metric: name of the score that counts.
        runs: of each seed its folder, its scores on the parts, and the shares of its mixes.
    """

    out: str
    metric: str
    runs: tuple[dict[str, Any], ...]

    def spreads(self) -> dict[str, dict[str, Spread]]:
        """Give mean and deviation over the seeds of each score, by part and name."""
        found = {part: [run[part] for run in self.runs if run[part]] for part in PARTS}
        return {
            part: {
                name: mean_and_deviation([scores[name] for scores in all_scores])
                for name in all_scores[0]
            }
            for part, all_scores in found.items()
            if all_scores
        }

    def shares(self) -> dict[str, list[float]]:
        """Give the shares of the layers in each mix of several, by its place and seed."""
        return {
            f"{place}, seed {run['seed']}": mix["shares"]
            for run in self.runs
            for place, mix in (run["mixes"] or {}).items()
            if len(mix["shares"]) > 1
        }

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        spreads = {
            part: {name: dataclasses.asdict(spread) for name, spread in spreads.items()}
            for part, spreads in self.spreads().items()
        }
        return {"metric": self.metric, "scores": spreads, "runs": list(self.runs)}

    def __str__(self) -> str:
        """Say the scores, mean and deviation where there are several, and the mixes."""
        lines = []
        for part, spreads in self.spreads().items():
            figures = ", ".join(_figure(name, spread) for name, spread in spreads.items())
            lines.append(f"{part:<12} {figures}")
        for place, mix in (self.runs[0]["mixes"] or {}).items():
            shares = " ".join(f"{share:.3f}" for share in mix["shares"])
            lines.append(f"mix at {place}: layers {shares}, gamma {mix['gamma']:.3f}")
        if len(self.runs) == 1:
            lines.append(f"model: {Path(self.out) / MODEL}")
        else:
            lines.append(f"models: {self.out}/seed-*/{MODEL}, scores in {self.out}/{RESULTS}")
        return "\n".join(lines)


def _figure(name: str, spread: Spread) -> str:
    deviation = f" ± {spread.deviation:.4f}" if spread.n > 1 else ""
    return f"{name.replace('_', ' ')} {spread.mean:.4f}{deviation}"


def fit(config: TaskConfig) -> FitResult | TaskRun:
    """Train a model for each seed, and measure it on the test part where one is named.

    Args:
        config: of the task.
    """
    if config.run.dry_run and config.task in MEMORIES:
        return TaskRun(config.out, 0, 0.0, None, "dry run, nothing written; nothing is trained")
    if config.run.dry_run:
        return train(_job(config, load_elmo(config)))
    own = [_of_seed(config, number) for number in range(config.seeds)]
    if min(config.parallel_seeds, config.seeds) > 1:
        # What all share is read and computed once, and what is wrong with it is told once.
        _job(own[0], load_elmo(own[0]))
        _test_examples(own[0])
        runs = run_in_parallel(fit_and_measure, own, config.parallel_seeds)
    else:
        runs = [fit_and_measure(one) for one in own]
    metrics = [run.pop("metric") for run in runs]
    result = FitResult(config.out, metrics[0], tuple(runs))
    with atomic_path(Path(config.out) / RESULTS) as partial:
        partial.write_text(json.dumps(result.to_dict(), indent=1) + "\n")
    draw_mixes(Path(config.out) / PICTURE, result.shares(), named_layers(config.elmo.layers))
    return result


def _of_seed(config: TaskConfig, number: int) -> TaskConfig:
    """Give the config of one of the seeds."""
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


def fit_and_measure(config: TaskConfig) -> dict[str, Any]:
    """Train with one seed; gives what there is to tell, as plain data."""
    # Read before anything is trained: what is wrong with it is told now.
    test = _test_examples(config)
    trained = fit_once(config)
    return {
        "out": config.out,
        "seed": config.run.seed,
        "development": trained.facts.get("development"),
        "test": None if test is None else trained.scores(test),
        "mixes": trained.facts.get("mixes"),
        "metric": trained.task.metric,
    }


def fit_once(config: TaskConfig) -> FittedTask | LookupModel:
    """Train a model with one seed, and give the best one; or fill a memory."""
    if config.task in MEMORIES:
        return fit_lookup(config)
    sys.stderr.write(f"{train(_job(config, load_elmo(config)))}\n")
    device = str(make_fabric(config.run).device)
    return load_fitted_task(Path(config.out) / MODEL, device)


def _job(config: TaskConfig, elmo: ELMo | None) -> TaskTrainingJob:
    """Read the examples of a run and make its model."""
    split = TrackedSplit(splitter(config, elmo))
    examples, dev = training_examples(config.examples, split, config.run.seed)
    trained = prepare(config, elmo, examples, dev)
    trained.raw = split.was_used
    return TaskTrainingJob(trained, examples, dev)


def prepare(
    config: TaskConfig, elmo: ELMo | None, train: Sequence[Example], dev: Sequence[Example]
) -> FittedTask:
    """Make a model for examples, with its first weights.

    Args:
        config: its dials.
        elmo: whose layers it reads.
        train: examples to learn from.
        dev: examples to choose by.
    """
    kind = task_for(config.task, [*train, *dev], config)
    labels = kind.labels(train)
    pieces = [piece for example in [*train, *dev] for piece in kind.split_example(example)]
    words = [text for piece in pieces for text in piece.texts]
    layers: LayerSource | None = None
    if elmo is not None and config.run.dry_run:
        layers = BlankLayers(elmo, config.elmo.layers)
    elif elmo is not None and config.elmo.use == "frozen":
        move(elmo, make_fabric(config.run).device)
        known = fingerprint(elmo.to_pretrained())
        layers = stored_layers(elmo, known, config.elmo.layers, words, layers_folder(config))
    static = None
    if config.word_features.word_vectors is not None:
        seen = {form for text in words for word in text for form in (word, word.lower())}
        static = read_word_vectors(
            Path(config.word_features.word_vectors), seen, config.word_features.max_word_vectors
        )
    built = build(config, kind, labels, elmo, layers=layers, static=static)
    return FittedTask(config, kind, labels, built)


def _test_examples(config: TaskConfig) -> list[Example] | None:
    """Read the test part, where one is named."""
    if config.examples.test is None:
        return None
    split = splitter(config, load_elmo(config))
    return read_examples(config.examples, config.examples.test, split)
