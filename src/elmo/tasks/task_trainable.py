"""A task as the loop trains it: batches of examples, a step, a score on the development part."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from elmo import __version__
from elmo.config import OptimizerConfig, TaskConfig
from elmo.errors import ConfigError
from elmo.model.bilm import BiLM
from elmo.tasks.examples import Example, examples_signature
from elmo.tasks.fitted_task import FittedTask
from elmo.tasks.renamed_records import upgrade_weights
from elmo.tasks.task_batches import Batches, TaskBatch, n_words
from elmo.train.optim import (
    clip_gradients,
    learning_rate,
    make_optimizer,
    seed_step,
    set_rate,
)
from elmo.train.progress_line import duration
from elmo.train.run_state import RunState
from elmo.train.trainable import StepResult, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


# Examples between two looks for a signal while the development part is scored.
WATCHED = 2048


@dataclass(frozen=True)
class TaskScores:
    """What a model scored.

    Attributes:
        metric: name of the score that counts.
        figures: all scores by name.
    """

    metric: str
    figures: dict[str, float]

    @property
    def rank(self) -> float:
        """What models are compared by; lower is better."""
        return -self.figures[self.metric]

    def values(self) -> dict[str, float]:
        """Give the figures by name."""
        return self.figures

    def line(self) -> str:
        """Say the figures in a line."""
        return ", ".join(f"{name.replace('_', ' ')} {v:.4f}" for name, v in self.figures.items())


@dataclass(frozen=True)
class TaskRun:
    """What a run came to.

    Attributes:
        out: its folder.
        step: steps done.
        seconds: time spent.
        best: scores on the development part; None where there was no time for any.
        note: how it ended.
    """

    out: str
    step: int
    seconds: float
    best: TaskScores | None
    note: str

    def __str__(self) -> str:
        """Say it in a line."""
        if not self.step:
            return self.note
        best = "" if self.best is None else f"; development: {self.best.line()}"
        return f"{self.note}: step {self.step:,}, {duration(self.seconds)}{best}"


@dataclass(frozen=True)
class TaskTrainingJob:
    """A model and its examples, ready but for the device.

    Attributes:
        trained: the model with its first weights.
        train: examples to learn from.
        dev: examples to choose by.
    """

    trained: FittedTask
    train: Sequence[Example]
    dev: Sequence[Example]

    @property
    def config(self) -> TaskConfig:
        """Of the run."""
        return self.trained.config

    def make_trainable(self, fabric: "Fabric") -> "TaskTrainable":
        """Put it on its device."""
        return TaskTrainable(self, fabric)


class TaskTrainable:
    """A model of a task in training."""

    loss_names: tuple[str, ...] = ("loss",)
    compare_at: int | None = None

    def __init__(self, job: TaskTrainingJob, fabric: "Fabric") -> None:
        """Move the model and make its optimisers.

        Args:
            job: what to train.
            fabric: the device and its precision.
        """
        self.job, self.fabric, self.config = job, fabric, job.config
        self.trained, self.model = job.trained, job.trained.built.model
        fabric.to_device(self.model)
        config = self.config
        self.data = Batches(
            [piece for example in job.train for piece in self.trained.task.split_example(example)],
            self.trained.built.indexer,
            self.trained.task,
            {label: number for number, label in enumerate(self.trained.labels)},
            batch_size=config.batch_size,
            batch_words=config.batch_words,
            seed=config.run.seed,
        )
        # Those of all examples, where a share of them is used too: it is learned from as long.
        n_all = len(self.data.examples) / config.examples.fraction
        self.steps_per_epoch = float(math.ceil(round(n_all) / config.batch_size))
        self.n_steps = max(1, math.ceil(config.run.epochs * self.steps_per_epoch))
        if config.run.max_steps is not None:
            self.n_steps = min(self.n_steps, config.run.max_steps)
        total = sum(map(n_words, self.data.examples))
        self.tokens_per_step = max(1, round(total / self.data.per_epoch))
        self.chance_loss = math.log(max(2, self.trained.task.n_choices(self.trained.labels)))
        self.optimizers: list[torch.optim.Optimizer] = []
        self.rates: list[OptimizerConfig] = []
        for weights, rates in self._by_rate():
            self.optimizers.append(make_optimizer(weights, rates))
            self.rates.append(rates)

    def _by_rate(self) -> Iterator[tuple[list[nn.Parameter], OptimizerConfig]]:
        """Give what learns at rates of its own: the model, the mixes of layers, a tuned ELMo."""
        elmo, rates = self.config.elmo, self.config.optimizer
        mixes = [mix.weights for _, mix in self.model.mixes() if len(mix.weights) > 1]
        network = self.model.features.network
        apart = {*mixes, *(() if network is None else network.parameters())}
        yield [value for value in self.model.parameters() if value not in apart], rates
        if mixes:
            yield mixes, replace(rates, learning_rate=elmo.mix_learning_rate, weight_decay=0.0)
        if network is not None:
            own = replace(rates, learning_rate=elmo.elmo_learning_rate, weight_decay=0.0)
            yield list(network.bilm.parameters()), own

    def describe(self) -> str:
        """Say what the run will take, before its first step."""
        n_weights = sum(value.numel() for value in self.model.parameters() if value.requires_grad)
        scheme = self.trained.task.to_settings().get("scheme")
        return (
            f"{self.config.task}: {len(self.job.train):,} examples to learn from, "
            f"{len(self.job.dev):,} to choose by, {len(self.trained.labels)} labels"
            f"{f', tags of scheme {scheme}' if scheme else ''}\n"
            f"model    {n_weights:,} weights that learn\n"
            f"steps    {self.n_steps:,}, {self.steps_per_epoch:,.0f} an epoch"
        )

    def batches(self, first_step: int) -> Iterator[list[TaskBatch]]:
        """Give the batches of all steps from one on, in their parts, on the device."""
        for parts in self.data.from_step(first_step):
            yield [part.to(self.fabric.device) for part in parts]

    def step(self, batch: list[TaskBatch], number: int) -> StepResult:
        """Learn from the parts of a batch."""
        self._let_loose(number)
        seed_step(self.fabric.device, self.config.run.seed, number)
        self.model.train()
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            set_rate(optimizer, learning_rate(rates, number, self.n_steps))
        losses = []
        for part in batch:
            with self.fabric.autocast():
                loss = part.share * self.model.loss(part.groups, part.targets)
            self.fabric.backward(loss * (self.config.optimizer.loss_scale or 1.0))
            losses.append(loss.detach())
        norm = self._clip()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rate = learning_rate(self.config.optimizer, number, self.n_steps)
        return StepResult(torch.stack(losses).sum().reshape(1), norm, rate)

    def _clip(self) -> Tensor:
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        return clip_gradients(gradients, self.config.optimizer.clip_norm)

    def _let_loose(self, number: int) -> None:
        """Let the layers of a tuned ELMo learn one after another, from the top."""
        network, every = self.model.features.network, self.config.elmo.unfreeze_every
        if network is None or not every:
            return
        n_loose = int(number / self.steps_per_epoch) // every
        for depth, part in enumerate(parts_from_top(network.bilm)):
            for module in part:
                module.requires_grad_(depth < n_loose)

    def memory_advice(self) -> str:
        """Say what to do when a step did not fit into memory."""
        words = min(self.config.batch_words, self.tokens_per_step)
        return f"out of memory: try --batch-words {max(1, words // 2)}"

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Score the development part."""
        if not self.job.dev:
            return None
        examples = self.job.dev
        answers: list[Any] = []
        for start in watch(range(0, len(examples), WATCHED)):
            answers += self.trained.predict(examples[start : start + WATCHED])
        found = self.trained.task.scores(examples, answers)
        return [found[name] for name in self.trained.task.metrics]

    def evaluation(self, numbers: list[float]) -> TaskScores:
        """Give what `metric` found, now or before a restart."""
        kind = self.trained.task
        return TaskScores(kind.metric, dict(zip(kind.metrics, numbers, strict=True)))

    def is_finite(self) -> bool:
        """Whether all weights are numbers."""
        return all(bool(torch.isfinite(value).all()) for value in self.model.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Give all that the steps changed, and a mark of the examples."""
        return {
            "weights": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "examples": self._mark(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave; refuse that of a run on other examples."""
        if state["examples"] != self._mark():
            raise ConfigError(f"{self.config.out} holds a run on other examples: another --out")
        self.model.load_state_dict(upgrade_weights(state["weights"]))
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            # How it is computed is this machine's, and this version's.
            dials = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({**saved, "param_groups": dials})

    def _mark(self) -> list[int]:
        """Give what examples are known by."""
        return [*examples_signature(self.job.train), *examples_signature(self.job.dev)]

    def save_model(self, folder: Path, step: int, found: TaskScores | None) -> None:
        """Write the model as it is now."""
        self.trained.facts = {
            "program": f"elmo-torch {__version__}",
            "steps": step,
            "development": None if found is None else found.figures,
            "mixes": self.model.shares(),
        }
        self.trained.save(folder)

    def result(self, state: RunState, note: str) -> TaskRun:
        """Give what the run came to."""
        best = self.evaluation(state.best) if state.best else None
        return TaskRun(self.config.out, state.step, state.seconds, best, note)


def parts_from_top(bilm: BiLM) -> list[list[nn.Module]]:
    """Give the layers of an ELMo from the top: LSTM layers of both directions, then the words."""
    stacks = (bilm.forward_lstm.layers, bilm.backward_lstm.layers)
    layers: list[list[nn.Module]] = [[ahead, back] for ahead, back in zip(*stacks, strict=True)]
    return [*reversed(layers), [bilm.encoder]]
