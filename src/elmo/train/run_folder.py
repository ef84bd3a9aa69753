"""The training folder: locking, the configuration file, and resuming from a checkpoint.

config.yaml     options of the run
checkpoints/    the last two checkpoints
log.jsonl       losses and evaluations
tensorboard/    the same for TensorBoard
curves.png      plot of losses and evaluations
model/          the best model so far
scheduled-model/  the best model of the scheduled evaluations, if model/ is a better one from a time
                limit
corpus/         the corpus, if the training data are text files
text.json       files and options from which the corpus was prepared
"""

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
import yaml

from elmo import __version__, files
from elmo.config.renamed import upgrade_recorded
from elmo.config.serialization import from_dict, to_dict, to_yaml
from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.threads import restore_threads
from elmo.train import checkpoint
from elmo.train.run_state import RunState
from elmo.train.trainable import Batch, EvaluationT, RunSettings, Trainable

if TYPE_CHECKING:
    from lightning.fabric import Fabric

logger = logging.getLogger(__name__)

Config = TypeVar("Config")

CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
MODEL, SCHEDULED_MODEL = "model", "scheduled-model"
CORPUS = "corpus"
TEXT_RECORD = "text.json"
# Key of the `RunState` in checkpoints, and its earlier name, which is still read.
RUN_STATE, EARLIER_RUN_STATE = "run_state", "standing"

# Options that can be changed when a run resumes: hardware, length of the run, logging.
CHANGEABLE_OPTIONS = frozenset(
    "out workers epochs max_steps max_minutes max_rollbacks precision kernel accelerator devices "
    "num_nodes accumulate log_every evaluate_every checkpoint_every patience mlflow "
    "mlflow_store dry_run test cache sample_every sample_length sample_prompt "
    "sample_temperature".split()
)
# Also changeable if the data were not prepared into the training folder: such data are identified
# by their content, not by their path.
DATA_OPTIONS = frozenset("data text valid corpus train dev".split())


@dataclass(frozen=True)
class RunFolder:
    """The training folder of a run, to which only its first process writes."""

    config: RunSettings
    fabric: "Fabric"

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return Path(self.config.out)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder, unless this is a dry run, which does not use it."""
        is_used = self.fabric.is_global_zero and not self.config.run.dry_run
        return locked(self.path) if is_used else nullcontext()

    def resume(self, trainable: Trainable[Batch, EvaluationT, object]) -> RunState | None:
        """Load the last checkpoint, if there is one; it must be of a run with the same options."""
        if self.fabric.is_global_zero:
            check_same_run(self.path, self.config)
            self._restore_model()
        content = self._newest_checkpoint()
        if content is None:
            return None
        state = _load(content, trainable)
        threads = checkpoint.entry(content, "threads", int)
        restore_threads(threads)
        if threads != torch.get_num_threads() and self.fabric.device.type == "cpu":
            logger.warning(
                "The run was started with %d threads and resumes with %d. Results can differ by "
                "rounding errors.",
                threads,
                torch.get_num_threads(),
            )
        return state

    def roll_back(self, trainable: Trainable[Batch, EvaluationT, object]) -> RunState | None:
        """Load the last checkpoint of this run, if there is one."""
        content = self._newest_checkpoint()
        return None if content is None else _load(content, trainable)

    def _newest_checkpoint(self) -> dict[str, object] | None:
        if self.fabric.is_global_zero and self.fabric.world_size > 1:
            # Delete damaged checkpoints before the other processes look for the newest one.
            checkpoint.load_newest(self.path / CHECKPOINTS)
        self.fabric.barrier()
        return checkpoint.load_newest(self.path / CHECKPOINTS)

    def save_checkpoint(self, state: RunState, model_state: Mapping[str, object]) -> None:
        """Write a checkpoint with the states of the training loop and of the trainable."""
        if self.fabric.is_global_zero:
            content = {
                "version": __version__,
                **model_state,
                RUN_STATE: dataclasses.asdict(state),
                "threads": torch.get_num_threads(),
            }
            checkpoint.save(self.path / CHECKPOINTS, state.step, content)
        self.fabric.barrier()

    def save_config(self) -> None:
        """Write the options of the run."""
        if self.fabric.is_global_zero:
            write_config(self.path, self.config)

    def save_model(
        self,
        trainable: Trainable[Batch, EvaluationT, object],
        step: int,
        evaluation: EvaluationT | None,
    ) -> None:
        """Write the current model."""
        if self.fabric.is_global_zero:
            trainable.save_model(self.path / MODEL, step, evaluation)

    def set_model_aside(self) -> None:
        """Keep the saved model for the resumed run, which continues without the next one."""
        if self.fabric.is_global_zero:
            (self.path / MODEL).replace(self.path / SCHEDULED_MODEL)

    def _restore_model(self) -> None:
        """Replace the model of a time limit by the best one of the scheduled evaluations."""
        if (self.path / SCHEDULED_MODEL).exists():
            shutil.rmtree(self.path / MODEL, ignore_errors=True)
            (self.path / SCHEDULED_MODEL).replace(self.path / MODEL)


def _load(content: dict[str, object], trainable: Trainable[Batch, EvaluationT, object]) -> RunState:
    """Load the content of a checkpoint, and return the state of the training loop."""
    trainable.load_state_dict(content)
    name = RUN_STATE if RUN_STATE in content else EARLIER_RUN_STATE
    return RunState(**checkpoint.entry(content, name, dict))


def kept_after_interruption(run: RunSettings) -> str | None:
    """Return a note on what an interrupted command keeps of its run, or runs with several seeds."""
    if run.run.dry_run:
        return None
    if any(Path(run.out).glob(f"**/{CHECKPOINTS}/*.pt")):
        return f"The last checkpoint in {run.out} is kept; run the same command again to resume."
    return "There is no checkpoint yet; run the same command again to start from the beginning."


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the training folder for this run, and delete partial files left by a killed run."""
    busy = f"{folder} is in use by another run. Wait until it ends, or choose another --out."
    with files.locked(folder, busy):
        files.clear_partials(folder, folder / MODEL)
        yield


def check_same_run(folder: Path, config: RunSettings) -> None:
    """Raise an error if the folder contains a run with different options."""
    if not (folder / CONFIG).exists():
        return
    changeable = (
        CHANGEABLE_OPTIONS if (folder / CORPUS).exists() else CHANGEABLE_OPTIONS | DATA_OPTIONS
    )
    content = _read_content(folder)
    try:
        recorded = _to_config(type(config), content)
    except ConfigError as error:
        changed = [str(error).rstrip(".")]
    else:
        changed = list(_differences(to_dict(recorded), to_dict(config), "", changeable))
    if changed:
        raise ConfigError(
            f"{folder} contains a run with other settings: {'; '.join(changed)}. Use the same "
            "settings, or choose another --out."
        )


def recorded_config(folder: Path, cls: type[Config]) -> Config | None:
    """Return the options of the run in a folder; None if there is no run or they are not valid."""
    if not (folder / CONFIG).exists():
        return None
    try:
        return _to_config(cls, _read_content(folder))
    except ConfigError:
        return None


def _read_content(folder: Path) -> object:
    path = folder / CONFIG
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None


def _to_config(cls: type[Config], content: object) -> Config:
    """Convert the content of `config.yaml`; options that it does not contain have their default."""
    return from_dict(cls, upgrade_recorded(cls, content), CONFIG)


def _differences(
    before: object, now: object, name: str, changeable: frozenset[str]
) -> Iterator[str]:
    """Yield a description of each option that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in now:
            if key not in changeable:
                yield from _differences(before.get(key), now[key], key, changeable)
    elif before != now:
        yield f"{name} was {before}, now {now}"


def write_config(folder: Path, config: RunSettings) -> None:
    """Write the options of the run to `config.yaml`."""
    with atomic_path(folder / CONFIG) as partial:
        partial.write_text(to_yaml(config), encoding="utf-8")
