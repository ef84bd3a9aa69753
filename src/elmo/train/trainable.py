"""What the loop trains: anything that gives batches, takes steps, measures itself and can be kept.

The loop knows nothing of texts, networks or scores beyond what stands here. A language model is one
such work (`language_work.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torch import Tensor

from elmo.config import RunConfig
from elmo.train.run_state import RunState

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Batch = TypeVar("Batch")
EvaluationT = TypeVar("EvaluationT", bound="Evaluation")
Result = TypeVar("Result", covariant=True)

# Gives the same things, until a signal asks the run to stop.
Watch = Callable[[Iterable[Any]], Iterator[Any]]


class RunSettings(Protocol):
    """The dials of a run, of which the loop reads two; a dataclass of plain data."""

    @property
    def out(self) -> str:
        """The training folder."""

    @property
    def run(self) -> RunConfig:
        """How long, on what, and what it tells."""


class Evaluation(Protocol):
    """What a model was found to be on what was held out."""

    @property
    def rank(self) -> float:
        """What models are compared by; lower is better."""

    def values(self) -> dict[str, float]:
        """Give the figures by name, for the log."""

    def line(self) -> str:
        """Say the figures in a line."""


@dataclass(frozen=True)
class StepResult:
    """What a step gave, still on the device.

    Attributes:
        losses: means over the batch, as trained on, (losses,).
        norm: of all gradients before they were clipped.
        rate: learning rate.
    """

    losses: Tensor
    norm: Tensor
    rate: float


class Trainable(Protocol[Batch, EvaluationT, Result]):
    """A model in training, on its device, in one of the processes of a run.

    Attributes:
        n_steps: of the whole run.
        steps_per_epoch: steps in which everything is read once.
        tokens_per_step: over all processes; what speed is told in.
        loss_names: of the losses of a step, by which they are logged beside `loss`, their mean.
        chance_loss: loss of a model that knows nothing; one far above it has gone astray.
        compare_at: the step before which a first evaluation is made, to compare later ones with.
    """

    n_steps: int
    steps_per_epoch: float
    tokens_per_step: int
    loss_names: tuple[str, ...]
    chance_loss: float
    compare_at: int | None

    def describe(self) -> str:
        """Say what the run will take, before its first step."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Give the batches of all steps from one on, without an end.

        They are made in a thread of their own, ahead of the steps that take them.
        """

    def step(self, batch: Batch, number: int) -> StepResult:
        """Learn from a batch.

        Args:
            batch: of this step.
            number: of the step, from 0. What is random may depend on nothing else.
        """

    def memory_advice(self) -> str:
        """Say what to do when a step did not fit into memory."""

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Measure on what was held out, over all processes; stop a run that has gone astray.

        Args:
            step: steps done.
            watch: what is read is to be passed through it.

        Returns:
            Numbers that `evaluation` makes sense of; None where nothing was held out.
        """

    def evaluation(self, numbers: list[float]) -> EvaluationT:
        """Give what `measure` found, now or before a restart."""

    def is_finite(self) -> bool:
        """Whether all weights are numbers."""

    def state_dict(self) -> dict[str, Any]:
        """Give all that the steps changed, and a mark of the data; every process must call it.

        Tensors and plain data. They stand in a checkpoint beside the loop's own `version`,
        `standing` and `threads`.
        """

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave; refuse that of a run on other data."""

    def save_model(self, folder: Path, step: int, found: EvaluationT | None) -> None:
        """Write the model as it is now.

        Args:
            folder: of the model.
            step: steps done.
            found: its evaluation, where there was one.
        """

    def result(self, standing: RunState, note: str) -> Result:
        """Give what the run came to, to be returned to whoever started it.

        Args:
            standing: where the run ended.
            note: how, in words.
        """


class TrainingJob(Protocol[Result]):
    """What is to be trained, ready but for its device."""

    @property
    def config(self) -> RunSettings:
        """Of the run."""

    def make_trainable(self, fabric: "Fabric") -> Trainable[Any, Any, Result]:
        """Put it on its device."""
