"""Training a model for a task, once for each seed, and what it scores on the test part."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.config import TaskConfig
from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint
from elmo.files import atomic_path
from elmo.kernels.device import move
from elmo.tasks.build import StaticTable, build, layers_folder, load_elmo, splitter
from elmo.tasks.data import read_examples, training_examples
from elmo.tasks.examples import Example
from elmo.tasks.kinds import kind_for
from elmo.tasks.layers import StoredLayers, stored_layers
from elmo.tasks.scores import mean_and_deviation
from elmo.tasks.static import read_static
from elmo.tasks.trained import Trained, load_trained
from elmo.tasks.work import TaskJob
from elmo.train.devices import make_fabric
from elmo.train.folder import MODEL
from elmo.train.loop import train

RESULTS = "results.json"


@dataclass(frozen=True)
class FitResult:
    """What all seeds came to.

    Attributes:
        out: folder of the runs.
        measure: name of the score that counts.
        runs: of each seed its folder, its scores on the parts, and the shares of its mixes.
    """

    out: str
    measure: str
    runs: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        """Say the scores, mean and deviation where there are several, and the mixes."""
        lines = []
        for part in ("development", "test"):
            found = [run[part] for run in self.runs if run.get(part)]
            if found:
                figures = ", ".join(_figure(name, found) for name in found[0])
                lines.append(f"{part:<12} {figures}")
        for place, mix in (self.runs[0]["mixes"] or {}).items():
            shares = " ".join(f"{share:.3f}" for share in mix["shares"])
            lines.append(f"mix at {place}: layers {shares}, gamma {mix['gamma']:.3f}")
        if len(self.runs) == 1:
            lines.append(f"model: {Path(self.out) / MODEL}")
        else:
            lines.append(f"models: {self.out}/seed-*/{MODEL}, scores in {self.out}/{RESULTS}")
        return "\n".join(lines)


def _figure(name: str, found: Sequence[dict[str, float]]) -> str:
    spread = mean_and_deviation([scores[name] for scores in found])
    deviation = f" ± {spread.deviation:.4f}" if spread.n > 1 else ""
    return f"{name.replace('_', ' ')} {spread.mean:.4f}{deviation}"


def fit(config: TaskConfig) -> FitResult:
    """Train a model for each seed, and measure it on the test part where one is named.

    Args:
        config: of the task.
    """
    runs = []
    measure = ""
    for number in range(config.seeds):
        own = config
        if config.seeds > 1:
            run = dataclasses.replace(config.run, seed=config.run.seed + number)
            own = dataclasses.replace(
                config,
                run=run,
                out=str(Path(config.out) / f"seed-{run.seed}"),
                cache=str(layers_folder(config)),
                seeds=1,
            )
        trained = fit_once(own)
        measure = trained.kind.measure
        runs.append(
            {
                "out": own.out,
                "seed": own.run.seed,
                "development": trained.facts.get("development"),
                "test": _test(own, trained),
                "mixes": trained.facts.get("mixes"),
            }
        )
        if config.run.dry_run:
            break
    result = FitResult(config.out, measure, tuple(runs))
    if not config.run.dry_run:
        with atomic_path(Path(config.out) / RESULTS) as partial:
            partial.write_text(json.dumps({"measure": measure, "runs": runs}, indent=1) + "\n")
    return result


def fit_once(config: TaskConfig) -> Trained:
    """Train a model with one seed; gives the best one."""
    elmo = load_elmo(config)
    split = splitter(config, elmo)
    examples, dev = training_examples(config.examples, split, config.run.seed)
    trained = prepare(config, elmo, examples, dev)
    train(TaskJob(trained, examples, dev))
    if config.run.dry_run:
        return trained
    device = str(make_fabric(config.run).device)
    return load_trained(Path(config.out) / MODEL, device)


def prepare(
    config: TaskConfig, elmo: ELMo | None, train: Sequence[Example], dev: Sequence[Example]
) -> Trained:
    """Make a model for examples, with its first weights.

    Args:
        config: its dials.
        elmo: whose layers it reads.
        train: examples to learn from.
        dev: examples to choose by.
    """
    kind = kind_for(config.task, [*train, *dev])
    labels = kind.labels(train)
    words = [example.words for example in [*train, *dev]]
    layers: StoredLayers | None = None
    if elmo is not None and config.elmo.use == "frozen":
        move(elmo, make_fabric(config.run).device)
        known = fingerprint(elmo.to_pretrained())
        layers = stored_layers(elmo, known, config.elmo.layers, words, layers_folder(config))
    static = None
    if config.words.static is not None:
        seen = {form for text in words for word in text for form in (word, word.lower())}
        static = StaticTable(*read_static(Path(config.words.static), seen))
    built = build(config, kind, labels, elmo, layers=layers, static=static)
    return Trained(config, kind, labels, built)


def _test(config: TaskConfig, trained: Trained) -> dict[str, float] | None:
    """Measure the best model on the test part."""
    if config.examples.test is None or config.run.dry_run:
        return None
    split = splitter(config, trained.built.elmo)
    return trained.scores(read_examples(config.examples, config.examples.test, split))
