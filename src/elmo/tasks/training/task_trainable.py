"""Connects a task model to the training loop: batches, training steps, evaluation."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from elmo import __version__
from elmo.config import OptimizerConfig
from elmo.errors import ConfigError
from elmo.model.bilm import BiLM
from elmo.progress import duration, format_count
from elmo.tasks.core.example import Example, examples_signature
from elmo.tasks.core.label_report import NO_SPAN, LabelReport
from elmo.tasks.core.renamed_records import upgrade_weights
from elmo.tasks.core.task_batches import TaskBatch, TaskBatches, n_words
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.training.size_defaults import with_size_defaults
from elmo.train.checkpoint import entry
from elmo.train.muon import hidden_matrices
from elmo.train.optim import (
    clip_gradients,
    learning_rate,
    load_optimizer,
    make_optimizer,
    seed_step,
    set_rate,
)
from elmo.train.run_state import RunState
from elmo.train.trainable import StepResult, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


# During evaluation, check for a stop signal after this number of examples.
CHECK_INTERVAL = 2048
# Shorter runs are reported, because a model rarely learns much in so few steps.
SHORT_RUN = 50
# With fewer development examples, the score of a model is mostly chance.
FEW_DEV_EXAMPLES = 20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskScores:
    """Scores of a model by name; `metric` is the main one."""

    metric: str
    scores: dict[str, float]

    @property
    def rank(self) -> float:
        """Value used to compare models; lower is better."""
        return -self.scores[self.metric]

    def values(self) -> dict[str, float]:
        """Return the scores by name."""
        return self.scores

    def line(self) -> str:
        """Return the scores as one line of text."""
        return ", ".join(f"{name.replace('_', ' ')} {v:.4f}" for name, v in self.scores.items())


@dataclass(frozen=True)
class TaskRun:
    """Result of a training run: best development scores, if any, and a note on its end."""

    out: str
    step: int
    seconds: float
    best: TaskScores | None
    note: str

    def __str__(self) -> str:
        if not self.step:
            return self.note
        best = "" if self.best is None else f"; development: {self.best.line()}"
        return f"{self.note}: step {self.step:,}, {duration(self.seconds)}{best}"


@dataclass(frozen=True)
class TaskTrainingJob:
    """A model to be trained and its examples, before they are moved to the device."""

    fitted: TrainedModel
    train: Sequence[Example[object]]
    dev: Sequence[Example[object]]

    @cached_property
    def config(self) -> TaskConfig:
        """Options of the run, with the defaults for a training set of this size."""
        return with_size_defaults(self.fitted.config, len(self.train))

    def make_trainable(self, fabric: "Fabric") -> "TaskTrainable":
        """Move the model to the device and prepare it for training."""
        return TaskTrainable(self, fabric)


class TaskTrainable:
    """A task model with optimizers, as used by the training loop."""

    loss_names: tuple[str, ...] = ("loss",)
    loss_unit: str = "loss"
    compare_at: int | None = None

    def __init__(self, job: TaskTrainingJob, fabric: "Fabric") -> None:
        self.job, self.fabric, self.config = job, fabric, job.config
        self.fitted, self.model = job.fitted, job.fitted.built.model
        fabric.to_device(self.model)
        config = self.config
        assert config.batch_size is not None
        self.data = TaskBatches(
            [part for example in job.train for part in self.fitted.task.split_example(example)],
            self.fitted.built.indexer,
            self.fitted.task,
            {label: number for number, label in enumerate(self.fitted.labels)},
            batch_size=config.batch_size,
            batch_words=config.batch_words,
            seed=config.run.seed,
        )
        n_examples = len(self.data.examples)
        if config.examples.keep_steps:
            # An epoch has as many steps as with all examples, so that the training time is equal.
            n_examples = round(n_examples / config.examples.fraction)
        self.steps_per_epoch = float(math.ceil(n_examples / config.batch_size))
        self.n_steps = max(1, math.ceil(config.run.epochs * self.steps_per_epoch))
        if config.run.max_steps is not None:
            self.n_steps = min(self.n_steps, config.run.max_steps)
        self.warmup_steps = self._optimizer.warmup_steps or 0
        total = sum(map(n_words, self.data.examples))
        self.tokens_per_step = max(1, round(total / self.data.per_epoch))
        self.chance_loss = math.log(max(2, self.fitted.task.n_choices(self.fitted.labels)))
        # Label of all predictions in the last evaluation and in that of the saved model, if there
        # is only one.
        self._only_label: str | None = None
        self._only_label_of_best: str | None = None
        self.optimizers: list[torch.optim.Optimizer] = []
        self.rates: list[OptimizerConfig] = []
        # In a head only LSTM layers, since the other matrices include output layers.
        hidden = [module for module in self.model.modules() if isinstance(module, nn.LSTM | BiLM)]
        matrices = hidden_matrices(*hidden)
        for weights, rates in self._parameter_groups():
            self.optimizers.append(make_optimizer(weights, rates, hidden=matrices))
            self.rates.append(rates)

    @property
    def _optimizer(self) -> OptimizerConfig:
        """Optimizer options; the warm-up shrinks with the number of steps."""
        examples, rates = self.config.examples, self.config.optimizer
        if examples.keep_steps:
            return rates
        return replace(rates, warmup_steps=round((rates.warmup_steps or 0) * examples.fraction))

    def _parameter_groups(self) -> Iterator[tuple[list[nn.Parameter], OptimizerConfig]]:
        """Yield parameters of model, mixes and ELMo with their options."""
        elmo, rates = self.config.elmo, self._optimizer
        mixes = [mix.weights for _, mix in self.model.mixes() if len(mix.weights) > 1]
        network = self.model.features.network
        separate = {*mixes, *(() if network is None else network.parameters())}
        yield [value for value in self.model.parameters() if value not in separate], rates
        if mixes:
            yield mixes, replace(rates, learning_rate=elmo.mix_learning_rate, weight_decay=0.0)
        if network is not None:
            elmo_rates = replace(rates, learning_rate=elmo.elmo_learning_rate, weight_decay=0.0)
            yield list(network.bilm.parameters()), elmo_rates

    def describe(self) -> str:
        """Return a description of the run, which is printed before the first step."""
        n_weights = sum(value.numel() for value in self.model.parameters() if value.requires_grad)
        elmo = self.config.elmo
        note = ""
        if 0 < len(self.job.dev) < FEW_DEV_EXAMPLES:
            note = "\nnote     few development examples to select a model with; give more (--dev)"
        return (
            f"{self.config.task}: {format_count(len(self.job.train), 'training example')}, "
            f"{format_count(len(self.job.dev), 'development example')}, "
            f"{self.fitted.task.describe_labels(self.fitted.labels, self.job.train)}\n"
            f"elmo     {'none' if elmo.model is None else f'{elmo.model}, {elmo.use}'}\n"
            f"model    {n_weights:,} trainable weights\n"
            f"steps    {self.n_steps:,}, {self.steps_per_epoch:,.0f} per epoch{note}"
        )

    def batches(self, first_step: int) -> Iterator[list[TaskBatch]]:
        """Yield lists of micro-batches on the device, starting at `first_step`."""
        for parts in self.data.from_step(first_step):
            yield [part.to(self.fabric.device) for part in parts]

    def step(self, batch: list[TaskBatch], number: int, rate_factor: float = 1.0) -> StepResult:
        """Run one training step on a batch, given as a list of micro-batches."""
        self._unfreeze(number)
        seed_step(self.fabric.device, self.config.run.seed, number)
        self.model.train()
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            set_rate(optimizer, rate_factor * learning_rate(rates, number, self.n_steps))
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
        rate = rate_factor * learning_rate(self._optimizer, number, self.n_steps)
        return StepResult(torch.stack(losses).sum().reshape(1), norm, rate)

    def _clip(self) -> Tensor:
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        return clip_gradients(gradients, self.config.optimizer.clip_norm)

    def _unfreeze(self, number: int) -> None:
        """Unfreeze the layers of a fine-tuned ELMo one by one, from top to bottom."""
        network, every = self.model.features.network, self.config.elmo.unfreeze_every
        if network is None or not every:
            return
        n_unfrozen = int(number / self.steps_per_epoch) // every
        for depth, modules in enumerate(layers_from_top(network.bilm)):
            for module in modules:
                module.requires_grad_(depth < n_unfrozen)

    def shorten(self, batch: list[TaskBatch], n_steps: int) -> None:
        """Return None: examples are not divided."""

    def message(self, step: int, *, is_evaluated: bool) -> None:
        """Return None: nothing is printed besides losses and scores."""

    def memory_advice(self) -> str:
        """Return the error message for an out-of-memory error."""
        words = min(self.config.batch_words, self.tokens_per_step)
        return f"Out of memory. Try --batch-words {max(1, words // 2)}."

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Return the scores on the development set; None if there is no development set."""
        if not self.job.dev:
            return None
        examples = self.job.dev
        predictions: list[object] = []
        starts = range(0, len(examples), CHECK_INTERVAL)
        for start in watch(starts, len(starts)):
            predictions += self.fitted.predict(examples[start : start + CHECK_INTERVAL])
        scores = self.fitted.task.scores(examples, predictions)
        self._only_label = _only_label(self.fitted.task.report(examples, predictions))
        return [scores[name] for name in self.fitted.task.metrics]

    def evaluation(self, numbers: list[float]) -> TaskScores:
        """Convert numbers returned by `measure`, possibly read from a checkpoint, to scores."""
        task = self.fitted.task
        return TaskScores(task.metric, dict(zip(task.metrics, numbers, strict=True)))

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(torch.isfinite(value).all()) for value in self.model.parameters())

    def state_dict(self) -> dict[str, object]:
        """Return the state modified by training steps, and a signature of the examples."""
        return {
            "weights": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "examples": self._signature(),
            "only_label_of_best": self._only_label_of_best,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state returned by `state_dict`; one of a run on other examples is an error."""
        if state["examples"] != self._signature():
            raise ConfigError(
                f"{self.config.out} contains a run on other examples. Use another output folder "
                "(out); leave it unset for cross-validation."
            )
        # Not in checkpoints of earlier versions.
        label = state.get("only_label_of_best")
        self._only_label_of_best = None if label is None else str(label)
        weights = upgrade_weights(entry(state, "weights", dict))
        current = self.model.state_dict()
        if any(weights[name].shape != current[name].shape for name in weights.keys() & current):
            # The labels of a run are in its model, which is first written by an evaluation.
            raise ConfigError(
                f"{self.config.out} contains a run of an earlier version that stopped before its "
                "first evaluation. Use another output folder (out)."
            )
        self.model.load_state_dict(weights)
        states = entry(state, "optimizers", list)
        for optimizer, saved in zip(self.optimizers, states, strict=True):
            load_optimizer(optimizer, saved)

    def _signature(self) -> list[int]:
        """Return a signature of the training and development examples."""
        return [*examples_signature(self.job.train), *examples_signature(self.job.dev)]

    def save_model(self, folder: Path, step: int, evaluation: TaskScores | None) -> None:
        """Save the current model in a model folder."""
        self._only_label_of_best = self._only_label
        self.fitted.facts = {
            "program": f"elmo-torch {__version__}",
            "steps": step,
            "development": None if evaluation is None else evaluation.scores,
            "mixes": self.model.shares(),
        }
        self.fitted.save(folder)

    def result(self, state: RunState, note: str) -> TaskRun:
        """Return the result of the run."""
        best = self.evaluation(state.best) if state.best else None
        if (label := self._only_label_of_best) is not None:
            if self.fitted.label_type == "bool":
                label = str(label == "1")
            logger.warning(
                "The model predicts %s on the development set: it has learned nothing else in "
                "%s. Use more epochs, smaller batches or another learning rate.",
                "no spans" if label == NO_SPAN else f"only the label {label!r}",
                format_count(state.step, "step"),
            )
        elif 0 < state.step == self.n_steps < SHORT_RUN:
            logger.warning(
                "The run has only %s. Use more epochs or smaller batches if the scores are low.",
                format_count(self.n_steps, "step"),
            )
        return TaskRun(self.config.out, state.step, state.seconds, best, note)


def _only_label(report: LabelReport | None) -> str | None:
    """Return the label of all predictions; None if there are several or one label is correct."""
    if report is None or len(report.confusion) < 2:
        return None
    predicted = {label for counts in report.confusion.values() for label in counts}
    return predicted.pop() if len(predicted) == 1 else None


def layers_from_top(bilm: BiLM) -> list[list[nn.Module]]:
    """Return the modules of each ELMo layer, in both directions, then the token encoder."""
    stacks = (bilm.forward_lstm.layers, bilm.backward_lstm.layers)
    layers: list[list[nn.Module]] = [
        [forward, backward] for forward, backward in zip(*stacks, strict=True)
    ]
    return [*reversed(layers), [bilm.encoder]]
