"""The interface between the training loop and the models it trains.

The loop depends only on these protocols. `LMTrainable` implements them for language models and
`TaskTrainable` for tasks.
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

# Yields the items of an iterable unchanged and raises an error once a signal requested a stop.
Watch = Callable[[Iterable[Any]], Iterator[Any]]


class RunSettings(Protocol):
    """Options of a run, as a dataclass; the loop reads these two."""

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
        """Value by which models are compared; lower is better."""

    def values(self) -> dict[str, float]:
        """Return the metrics by name, for the log."""

    def line(self) -> str:
        """Return the metrics as one line of text."""


@dataclass(frozen=True)
class StepResult:
    """Result of a step; tensors are still on the device.

    Attributes:
        losses: Mean training losses of the batch, (losses,).
        norm: Norm of all gradients before clipping.
        rate: Learning rate.
    """

    losses: Tensor
    norm: Tensor
    rate: float


class Trainable(Protocol[Batch, EvaluationT, Result]):
    """A model in training on its device, in one process of a run.

    Attributes:
        n_steps: Number of steps of the whole run.
        steps_per_epoch: Number of steps in which the training data are read once.
        tokens_per_step: Number of tokens per step over all processes, for the speed.
        loss_names: Names under which the losses of a step are logged, next to their mean `loss`.
        chance_loss: Loss of uniform guessing; a loss far above it means that training diverged.
        compare_at: Step before which the model is evaluated for comparison with later evaluations;
            None for no such evaluation.
    """

    n_steps: int
    steps_per_epoch: float
    tokens_per_step: int
    loss_names: tuple[str, ...]
    chance_loss: float
    compare_at: int | None

    def describe(self) -> str:
        """Return a description of the run, printed before the first step."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Yield the batches of all steps from `first_step` on, without end.

        The iterator runs in a background thread, ahead of the steps.
        """

    def step(self, batch: Batch, number: int) -> StepResult:
        """Train on a batch.

        Args:
            batch: Batch of this step.
            number: Step number, from 0. Random numbers must depend on nothing else.
        """

    def memory_advice(self) -> str:
        """Return the error message for a step that did not fit into memory."""

    def measure(self, step: int, watch: Watch) -> list[float] | None:
        """Evaluate on the held-out data, over all processes.

        Args:
            step: Number of steps done.
            watch: Wrapper for the iterable over the held-out data, which lets a signal interrupt
                the evaluation.

        Returns:
            Numbers to pass to `evaluation`; None if there are no held-out data.

        Raises:
            TrainingError: Training diverged.
        """

    def evaluation(self, numbers: list[float]) -> EvaluationT:
        """Return the evaluation for numbers of `measure`, which can come from a checkpoint."""

    def is_finite(self) -> bool:
        """Whether no weight is NaN or infinite."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that steps change, and a fingerprint of the data.

        Every process must call this method. The checkpoint contains these entries next to
        `version`, `run_state` and `threads` of the loop.
        """

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state of `state_dict`.

        Args:
            state: Return value of `state_dict`.

        Raises:
            ConfigError: The state belongs to a run on other data.
        """

    def save_model(self, folder: Path, step: int, evaluation: EvaluationT | None) -> None:
        """Write the current model.

        Args:
            folder: Model folder.
            step: Number of steps done.
            evaluation: Evaluation of the model; None without held-out data.
        """

    def result(self, state: RunState, note: str) -> Result:
        """Return the result of the run.

        Args:
            state: State of the loop at the end of the run.
            note: How the run ended.
        """


class TrainingJob(Protocol[Result]):
    """A model to be trained, not yet on its device."""

    @property
    def config(self) -> RunSettings:
        """Options of the run."""

    def make_trainable(self, fabric: "Fabric") -> Trainable[Any, Any, Result]:
        """Move the model to its device and return it as a `Trainable`."""
