"""Logs a run to an MLflow store, which can be a folder, a database or a server."""

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.config.serialization import to_dict
from elmo.errors import ConfigError, MissingExtra, shortened
from elmo.files import atomic_path
from elmo.train.trainable import RunSettings

EXPERIMENT = "elmo"
RUN_FILE = "mlflow.json"
STORE = "mlruns"
# Limits of MLflow on the length of a value and on the number of parameters per call.
MAX_VALUE = 500
MAX_PARAMETERS = 100

logger = logging.getLogger(__name__)


class Tracking:
    """The MLflow run of a training folder; resuming the training continues the same MLflow run."""

    def __init__(self, folder: Path, config: RunSettings, *, is_new: bool) -> None:
        """Open the store and create or resume the run, whose id is in the training folder."""
        store = config.run.mlflow_store or str(folder / STORE)
        self._client = _client(store)
        self._enabled = True
        run_file = folder / RUN_FILE
        try:
            self._run_id = None if is_new else self._resume_run(run_file)
            if self._run_id is None:
                self._run_id = self._create_run(folder.resolve().name, config)
        except Exception as error:
            raise ConfigError(
                f"The MLflow store {store} cannot be used: {_reason(error)}"
            ) from error
        with atomic_path(run_file) as partial:
            partial.write_text(json.dumps({"run_id": self._run_id}) + "\n", encoding="ascii")

    def _resume_run(self, run_file: Path) -> str | None:
        """Reopen the MLflow run with the stored id; return None if the store has no such run."""
        from mlflow.exceptions import MlflowException

        try:
            run_id: str = json.loads(run_file.read_bytes())["run_id"]
            self._client.update_run(run_id, status="RUNNING")
        except (OSError, ValueError, KeyError, MlflowException):
            return None
        return run_id

    def _create_run(self, name: str, config: RunSettings) -> str:
        from mlflow.entities import Param

        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        number = experiment.experiment_id if experiment else None
        number = number or self._client.create_experiment(EXPERIMENT)
        run_id: str = self._client.create_run(number, run_name=name).info.run_id
        values = [Param(key, str(value)[:MAX_VALUE]) for key, value in flatten(config).items()]
        for start in range(0, len(values), MAX_PARAMETERS):
            self._client.log_batch(run_id, params=values[start : start + MAX_PARAMETERS])
        return run_id

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Log metrics; if the store fails, warn once and disable logging for the rest of the run.

        Steps that are repeated after resuming are logged again, with the same values.
        """
        from mlflow.entities import Metric

        if not self._enabled or not numbers:
            return
        now = int(time.time() * 1000)
        try:
            metrics = [Metric(name, value, now, step) for name, value in numbers.items()]
            self._client.log_batch(self._run_id, metrics=metrics)
        except Exception as error:
            self._enabled = False
            logger.warning(
                "MLflow logging failed; it is disabled for the rest of this run: %s", _reason(error)
            )

    def close(self, finished: bool) -> None:
        """Set the final status of the MLflow run."""
        if not self._enabled:
            return
        try:
            self._client.set_terminated(self._run_id, "FINISHED" if finished else "KILLED")
        except Exception as error:
            logger.warning("The status of the MLflow run could not be updated: %s", _reason(error))


def flatten(config: object) -> dict[str, object]:
    """Return the values in a config by dotted option name, such as `optimizer.learning_rate`."""
    flat: dict[str, object] = {}
    waiting = list(to_dict(config).items())
    while waiting:
        name, value = waiting.pop(0)
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", item) for key, item in value.items()]
        else:
            flat[name] = value
    return flat


def _client(store: str) -> Any:
    # MLflow sends usage data by default.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    if "://" not in store:
        # MLflow discourages folders, but only they need no further package.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        store = Path(store).absolute().as_uri()
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise MissingExtra("--mlflow", "mlflow") from None
    try:
        return MlflowClient(tracking_uri=store)
    except Exception as error:
        raise ConfigError(
            f"The MLflow store {store} cannot be opened: {_reason(error)}. A folder or a server "
            "address works with mlflow-skinny; a database needs the package mlflow."
        ) from error


def _reason(error: Exception) -> str:
    """Return the type and message of an error on one line."""
    return f"{type(error).__name__}: {shortened(error)}"
