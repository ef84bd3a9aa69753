"""A fitted task: predictions, scores, and the record in its model folder."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypedDict, TypeVar, cast, get_args

import safetensors

from elmo.config.serialization import from_dict, to_dict
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError
from elmo.formats.container import one_line
from elmo.tasks.core.example import Example
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.core.loaded_elmo import LoadedELMo, elmo_of, load_elmo
from elmo.tasks.core.renamed_records import upgrade_record
from elmo.tasks.core.task import Task
from elmo.tasks.core.task_model import MixShares
from elmo.tasks.registry.task_classes import check_targets
from elmo.tasks.registry.task_config import TaskConfig
from elmo.train.run_folder import CONFIG as RUN_CONFIG
from elmo.train.run_folder import MODEL

LabelType = Literal["str", "int", "bool"]
AnyTask = TypeVar("AnyTask", bound=Task[object, object])

FORMAT = "elmo-torch-task"
VERSION = 1
CONFIG, TUNED = "config.json", "elmo"
# Recorded in place of the name of a frozen ELMo model that is in the folder of the task.
ELMO_INSIDE = "./elmo"
# Types of the required entries in config.json, other than format and version.
_ENTRY_TYPES = {
    "labels": list,
    "task_settings": dict,
    "facts": dict,
    "fingerprint": str | None,
    "config": dict,
}
# Errors that reading damaged files can raise.
DAMAGED_FILE_ERRORS = (
    OSError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
    ConfigError,
    InputError,
    safetensors.SafetensorError,
)


class Facts(TypedDict, total=False):
    """Information about how a task was fitted."""

    program: str
    steps: int
    development: dict[str, float] | None
    mixes: dict[str, MixShares]
    examples: list[int]


@dataclass(frozen=True)
class ModelRecord:
    """Content of config.json in a model folder.

    Labels are strings, ordered by id; `label_type` is their type in the training data. The
    fingerprint is that of the ELMo model; None if ELMo is not used.
    """

    config: TaskConfig
    labels: list[str]
    task_settings: dict[str, object]
    facts: Facts
    fingerprint: str | None
    label_type: LabelType = "str"

    def to_json(self) -> bytes:
        """Return the content of the file."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "labels": self.labels,
            "task_settings": self.task_settings,
            "facts": self.facts,
            "label_type": self.label_type,
            "fingerprint": self.fingerprint,
            "config": to_dict(_with_absolute_elmo_path(self.config)),
        }
        return (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()


class FittedTask(ABC, Generic[AnyTask]):
    """A fitted task and everything that is needed for prediction.

    `facts` are steps, development scores and layer mixes. With `show_progress`, `predict` shows its
    progress.
    """

    def __init__(
        self, config: TaskConfig, task: AnyTask, loaded: LoadedELMo | None, facts: Facts | None
    ) -> None:
        """Store the parts of the model; there are no facts about the fit before it."""
        self.config = config
        self.task = task
        self.loaded = loaded
        self.facts: Facts = facts or {}
        self.show_progress = False

    @property
    def elmo(self) -> ELMo | None:
        """The ELMo model itself; None if ELMo is not used."""
        return elmo_of(self.loaded)

    def predict(self, examples: Sequence[Example[object]]) -> list[object]:
        """Return the answer for each example, also if it has no words; ignore the targets."""
        answers = iter(self.answers([example for example in examples if all(example.texts)]))
        empty = self.task.empty_answer
        return [next(answers) if all(example.texts) else empty for example in examples]

    @abstractmethod
    def answers(self, examples: Sequence[Example[object]]) -> list[object]:
        """Return the answer for each example; every text has words."""

    def scores(self, examples: Sequence[Example[object]]) -> dict[str, float]:
        """Return the scores of the answers for examples with targets."""
        return self.scores_and_report(examples)[0]

    def scores_and_report(
        self, examples: Sequence[Example[object]]
    ) -> tuple[dict[str, float], LabelReport | None]:
        """Return the scores, and those by label if the task has labels."""
        check_targets(self.config.task, examples)
        answers = self.predict(examples)
        return self.task.scores(examples, answers), self.task.report(examples, answers)

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model folder atomically."""


def _with_absolute_elmo_path(config: TaskConfig) -> TaskConfig:
    """Make the path of the ELMo model absolute, if the config contains a path."""
    model = config.elmo.model
    if model in (None, ELMO_INSIDE) or not Path(model).exists():
        return config
    return replace(config, elmo=replace(config.elmo, model=os.path.abspath(model)))


def _path_next_to_task(folder: Path, config: TaskConfig) -> Path | None:
    """Return where a moved ELMo model is looked for: next to the task, with its recorded name.

    Returns None if the model has no recorded path or is still there. The task is the training
    folder around the model folder, if any.
    """
    model = config.elmo.model
    is_moved = model is not None and os.path.isabs(model) and not Path(model).exists()
    if model is None or not is_moved or config.elmo.use == "tuned":
        return None
    task = folder.absolute()
    if task.name == MODEL and (task.parent / RUN_CONFIG).is_file():
        task = task.parent
    return task.parent / Path(model).name


def _with_moved_elmo(folder: Path, config: TaskConfig) -> TaskConfig:
    """Return the config with the path of an ELMo model in the folder, or moved with the task."""
    is_inside = config.elmo.model == ELMO_INSIDE
    path = folder.absolute() / TUNED if is_inside else _path_next_to_task(folder, config)
    if path is None or not path.exists():
        return config
    return replace(config, elmo=replace(config.elmo, model=str(path)))


def model_folder(folder: Path) -> Path:
    """Return the model folder; `folder` can be that folder or the training folder around it."""
    is_inside = not (folder / CONFIG).is_file() and (folder / MODEL / CONFIG).is_file()
    return folder / MODEL if is_inside else folder


def is_task_folder(folder: Path) -> bool:
    """Whether a folder contains a task model, or one task model per seed."""
    paths = [model_folder(folder) / CONFIG, *folder.glob(f"seed-*/{MODEL}/{CONFIG}")]
    for path in paths:
        try:
            record = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and record.get("format") == FORMAT:
            return True
    return False


def read_record(folder: Path) -> ModelRecord:
    """Read config.json in a model folder."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise FormatError(f"There is no folder {folder}. Name a folder written by `elmo task fit`.")
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        if seeds := sorted(folder.glob(f"*/{MODEL}/{CONFIG}")):
            raise FormatError(
                f"{folder} contains several models, one per seed. Choose one, for example "
                f"{seeds[0].parents[1]}."
            ) from None
        raise FormatError(f"{folder} is not a fitted task model: {one_line(error)}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise FormatError(
            f"{folder} is not a fitted task model: the format in its {CONFIG} is not {FORMAT!r}."
        )
    record = upgrade_record(record)
    if record.get("version") != VERSION:
        raise FormatError(
            f"{folder} has format version {record.get('version')!r}; only version {VERSION} is "
            "supported."
        )
    for name, entry_type in _ENTRY_TYPES.items():
        if not isinstance(record.get(name, ...), entry_type):
            raise FormatError(f"{path} is damaged: {name} is missing or has the wrong type.")
    label_type = record.get("label_type", "str")
    if label_type not in get_args(LabelType):
        raise FormatError(f"{path} is damaged: label_type is {label_type!r}.")
    try:
        config = from_dict(TaskConfig, record["config"], f"{path}: config")
    except ConfigError as error:
        raise FormatError(str(error)) from None
    return ModelRecord(
        config=_with_moved_elmo(folder, config),
        labels=cast(list[str], record["labels"]),
        task_settings=cast(dict[str, object], record["task_settings"]),
        facts=cast(Facts, record["facts"]),
        fingerprint=cast(str | None, record["fingerprint"]),
        label_type=cast(LabelType, label_type),
    )


def load_matching_elmo(
    folder: Path, record: ModelRecord, loaded: LoadedELMo | None = None
) -> LoadedELMo | None:
    """Return the ELMo model of a task model and check that it has the expected fingerprint."""
    config = record.config
    tuned = config.elmo.model is not None and config.elmo.use == "tuned"
    if tuned and not (folder / TUNED).is_dir():
        raise FormatError(
            f"{folder} is not a complete fitted task model: the folder {TUNED} is missing."
        )
    if tuned:
        loaded = LoadedELMo(ELMo.from_pretrained(folder / TUNED))
    elif loaded is None:
        if path := _path_next_to_task(folder, config):
            raise ConfigError(
                f"{folder} needs the ELMo model that it was trained with, but neither "
                f"{config.elmo.model} nor {path} exists. Copy or rename the ELMo model to one of "
                "these paths."
            )
        loaded = load_elmo(config.elmo)
    if loaded is None or loaded.fingerprint == record.fingerprint:
        return loaded
    if tuned:
        raise FormatError(
            f"{folder} is not a complete fitted task model: the ELMo in {TUNED} belongs to another "
            "task model."
        )
    raise ConfigError(
        f"{folder} was trained with a different ELMo model than the current {config.elmo.model}. "
        "Fit the task again, or restore the previous ELMo model."
    )
