"""Loads fitted tasks of any kind."""

from pathlib import Path

from elmo.formats import hub
from elmo.tasks.core.loaded_elmo import LoadedELMo
from elmo.tasks.fitted.fitted_task import model_folder, read_record
from elmo.tasks.fitted.lookup_model import LookupModel
from elmo.tasks.fitted.task_hub import download_task
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.registry.task_rows import task_row

Fitted = TrainedModel | LookupModel


def load_fitted_task(
    source: str | Path, device: str | None = None, elmo: LoadedELMo | None = None
) -> Fitted:
    """Load a fitted task from its model folder, a training folder that contains one, or a hub.

    Args:
        source: Model folder, training folder, or hub id. An existing path takes precedence.
        device: Device of the model. Default: the CPU.
        elmo: A frozen ELMo model that is already loaded.
    """
    path = Path(source)
    if not path.exists() and hub.is_hub_id(str(source)):
        path = download_task(str(source))
    folder = model_folder(path)
    record = read_record(folder)
    model = LookupModel if task_row(record.config.task).is_lookup else TrainedModel
    return model.load(folder, record, device, elmo)
