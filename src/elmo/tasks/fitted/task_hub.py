"""Task models on a Hugging Face hub, one model folder per repository.

A repository contains the fine-tuned ELMo model, or a frozen one that others cannot load by its
name. A name that others can load is that of a bundled or published model, or a hub id.
"""

import copy
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from elmo.config import TaskELMoConfig
from elmo.formats import bundled, hub
from elmo.formats.model_folder import CARD
from elmo.formats.published_models import MODELS
from elmo.tasks.fitted.fitted_task import CONFIG, ELMO_INSIDE, TUNED, read_record
from elmo.tasks.fitted.lookup_model import INDEX, VECTORS, LookupModel
from elmo.tasks.fitted.task_card import task_card
from elmo.tasks.fitted.trained_model import WEIGHTS, WORDS, TrainedModel
from elmo.tasks.registry.task_config import TaskConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")

FILES = (
    *(CONFIG, WEIGHTS, WORDS, INDEX, VECTORS, CARD),
    *(f"{TUNED}/{name}" for name in (*hub.MODEL_FOLDER_FILES, CARD)),
)


def download_task(repository: str) -> Path:
    """Download a task model into the hub's cache and return its folder there."""
    return hub.download(repository, FILES, has_subfolders=True)


def upload_task(
    fitted: TrainedModel | LookupModel, repository: str, *, private: bool = False
) -> str:
    """Upload a task model with a model card and return the URL of the commit.

    Args:
        fitted: The task model.
        repository: Hub id, "owner/name".
        private: Whether a new repository is private; an existing public one is then an error.
    """
    includes_elmo = _includes_elmo(fitted.config.elmo)
    uploaded = copy.copy(fitted)
    uploaded.config = _public_config(fitted.config, includes_elmo)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        uploaded.save(folder)
        elmo = fitted.elmo
        if includes_elmo and elmo is not None and fitted.config.elmo.use == "frozen":
            elmo.save_pretrained(folder / TUNED)
        attribution = {} if elmo is None else elmo.attribution
        record = replace(read_record(folder), config=uploaded.config)
        card = task_card(record, repository, attribution, includes_elmo=includes_elmo)
        (folder / CARD).write_text(card, encoding="utf-8")
        return hub.upload(
            folder,
            repository,
            private=private,
            replaced=(*hub.MODEL_FOLDER_FILES, *FILES),
            message="Upload ELMo task model",
        )


def _includes_elmo(elmo: TaskELMoConfig) -> bool:
    """Whether the ELMo model is uploaded with the task."""
    if elmo.model is None:
        return False
    is_path = Path(elmo.model).exists()
    has_public_name = elmo.model in (*bundled.NAMES, *MODELS) or hub.is_hub_id(elmo.model)
    return elmo.use == "tuned" or is_path or not has_public_name


def _public_config(config: TaskConfig, includes_elmo: bool) -> TaskConfig:
    """Return the config without the folders of this machine."""
    public = _without_folders(config)
    model = config.elmo.model
    if includes_elmo and (config.elmo.use == "frozen" or (model and Path(model).exists())):
        public = replace(public, elmo=replace(config.elmo, model=ELMO_INSIDE))
    return public


def _without_folders(config: Config) -> Config:
    """Return a config, or a section of it, with the names of files in place of absolute paths."""
    changes: dict[str, object] = {}
    for field in fields(config):
        value: object = getattr(config, field.name)
        if is_dataclass(value) and not isinstance(value, type):
            changes[field.name] = _without_folders(value)
        elif isinstance(value, str) and Path(value).is_absolute():
            changes[field.name] = Path(value).name
    return replace(config, **changes)
