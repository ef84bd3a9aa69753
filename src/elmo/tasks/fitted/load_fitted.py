"""Loads fitted tasks of any kind."""

from pathlib import Path

from elmo.tasks.core.loaded_elmo import LoadedELMo
from elmo.tasks.fitted.fitted_task import model_folder, read_record
from elmo.tasks.fitted.lookup_model import LookupModel
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.registry.task_rows import task_row

Fitted = TrainedModel | LookupModel


def load_fitted_task(
    folder: Path, device: str | None = None, elmo: LoadedELMo | None = None
) -> Fitted:
    """Load a fitted task from its model folder or from a training folder that contains one.

    The default device is the CPU. A frozen ELMo model that is already loaded can be passed.
    """
    folder = model_folder(folder)
    record = read_record(folder)
    model = LookupModel if task_row(record.config.task).is_lookup else TrainedModel
    return model.load(folder, record, device, elmo)
