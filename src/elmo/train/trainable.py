"""The interface between the training loop and the models it trains.

The loop depends only on these protocols. `LMTrainable` implements them for language models and
`TaskTrainable` for tasks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch import Tensor

from elmo.config import RunConfig
from elmo.train.run_state import RunState

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Batch = TypeVar("Batch")
EvaluationT = TypeVar("EvaluationT", bound="Evaluation")
Item = TypeVar("Item")
Result = TypeVar("Result", covariant=True)


class Watch(Protocol):
    """Function that shows the progress of an evaluation, which a signal can interrupt."""

    def __call__(self, items: Iterable[Item], n_items: int, /) -> Iterator[Item]:
        """Yield the items unchanged; raise an error once a signal requested a stop.

        Args:
            items: Iterable of held-out batches.
            n_items: Number of items, for the progress; it can be an estimate.
        """


class RunSettings(Protocol):
    """The options of a run that the training loop reads."""

    @property
    def out(self) -> str:
        """The training folder."""

    @property
    def run(self) -> RunConfig:
        """Options of the training loop: length of the run, hardware, logging."""


class Evaluation(Protocol):
    """Result of an evaluation on the held-out data."""

    @property
    def rank(self) -> float:
        """Score by which models are compared; lower is better."""

    def values(self) -> dict[str, float]:
        """Return the metrics to log, by name."""

    def line(self) -> str:
        """Return the metrics as one line of text."""


@dataclass(frozen=True)
class StepResult:
    """Result of a training step; its tensors are on the device.

    Attributes:
        losses: Mean training losses of the batch, of shape (losses,).
        norm: Total gradient norm before clipping.
        rate: Learning rate.
    """

    losses: Tensor
    norm: Tensor
    rate: float


class RunSize(Protocol):
    """What the monitor of a run reads: the size of the run and of its steps, and messages.

    Attributes:
        n_steps: Total number of steps in the run.
        steps_per_epoch: Number of steps per pass over the training data.
        tokens_per_step: Number of tokens per step over all processes, used to report the speed.
        loss_names: Names under which the individual losses are logged, in addition to their mean,
            which is logged as `loss`.
        loss_unit: Unit of the loss in plots, such as "nats per character".
    """

    n_steps: int
    steps_per_epoch: float
    tokens_per_step: int
    loss_names: tuple[str, ...]
    loss_unit: str

    def message(self, step: int, *, is_evaluated: bool) -> str | None:
        """Return a text to print, such as a sample; or None.

        Args:
            step: Number of completed steps.
            is_evaluated: Whether this is printed after an evaluation, rather than after a step.
        """


class Trainable(RunSize, Protocol[Batch, EvaluationT, Result]):
    """Interface of a model being trained in one process of a run.

    Attributes:
        warmup_steps: Number of steps in which the learning rate rises. Evaluations in them do not
            count for early stopping.
        chance_loss: Loss of uniform guessing; a loss far above it means that training diverged.
        compare_at: Step before which the model is evaluated as a baseline for later evaluations;
            None for no baseline.
    """

    warmup_steps: int
    chance_loss: float
    compare_at: int | None

    def describe(self) -> str:
        """Return a description of the run, to be printed before the first step."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Yield batches from `first_step` on; a background thread consumes them in advance."""

    def step(self, batch: Batch, number: int, rate_factor: float) -> StepResult:
        """Train on a batch. Random numbers must depend only on the step number and the seed.

        `rate_factor` is applied to the scheduled learning rate; it is below 1 after a rollback.
        """

    def shorten(self, batch: Batch, n_steps: int) -> tuple[Batch, float] | None:
        """Return the first time steps of a batch, and their fraction of all time steps.

        A dry run uses them if a whole step takes too long. The result is None if batches of this
        kind cannot be shortened.
        """

    def memory_advice(self) -> str:
        """Return the error message for a step that did not fit into memory."""

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Evaluate on the held-out data, over all processes; None if there is none.

        `watch` wraps the iterable of held-out batches, so that progress is shown and a signal can
        interrupt the evaluation. Its second argument is the number of batches, which can be an
        estimate. Returns numbers to pass to `evaluation`, or raises `Diverged`.
        """

    def evaluation(self, numbers: list[float]) -> EvaluationT:
        """Return the evaluation for the numbers returned by `measure`."""

    def is_finite(self) -> bool:
        """Whether all weights are finite."""

    def state_dict(self) -> Mapping[str, object]:
        """Return all state modified by training steps, plus a fingerprint of the data.

        Every process must call this method. The checkpoint stores these entries alongside the
        loop's `version`, `run_state` and `threads`.
        """

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state returned by `state_dict`; one of a run on other data is an error."""

    def save_model(self, folder: Path, step: int, evaluation: EvaluationT | None) -> None:
        """Write the current model; the evaluation is None if there is no held-out data."""

    def result(self, state: RunState, note: str) -> Result:
        """Return the result of the run, given the final state of the loop and how it ended."""


class TrainingJob(Protocol[Batch, EvaluationT, Result]):
    """Interface of a model to be trained, before it is moved to its device."""

    @property
    def config(self) -> RunSettings:
        """Options of the run."""

    def make_trainable(self, fabric: "Fabric") -> Trainable[Batch, EvaluationT, Result]:
        """Move the model to its device and return it as a `Trainable`."""
