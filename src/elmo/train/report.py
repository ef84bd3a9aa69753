"""Logs a run to `log.jsonl`, to TensorBoard and, with `--mlflow`, to MLflow.

`log.jsonl` has one line per event. Each line is flushed immediately, so that a killed process loses
at most the line it was writing. When a run is resumed, events after its last checkpoint are removed
from the log. Only one process of a run creates a `Report`.
"""

import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from elmo.errors import MissingExtra, OutputError
from elmo.files import atomic_path
from elmo.train.mlflow_tracking import Tracking
from elmo.train.trainable import RunSettings

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class Report(AbstractContextManager["Report"]):
    """Writes the log files in the training folder of a run."""

    def __init__(self, folder: Path, config: RunSettings, resume_step: int | None = None) -> None:
        """Open the log files; events after `resume_step` are removed, None starts new files."""
        # Whatever can fail comes first, before any event is removed.
        self._tracking: Tracking | None = None
        if config.run.mlflow:
            self._tracking = Tracking(folder, config, is_new=resume_step is None)
        self.path = folder / LOG
        self._board = _open_board(folder / TENSORBOARD, resume_step)
        self._open_log(-1 if resume_step is None else resume_step)

    def _open_log(self, step: int) -> None:
        """Open `log.jsonl` to append events; those after the given step are removed."""
        cut_log(self.path, step)
        self._file = self.path.open("a", encoding="ascii")

    def __exit__(self, error_type: object, *_: object) -> None:
        self.close(finished=error_type is None)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Log a training step."""
        self.event("step", step, values)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Log an evaluation on the held-out data after a step."""
        self.event("evaluation", step, values)
        # Evaluations are rare, and users of TensorBoard wait for them.
        self._board.flush()

    def rollback(self, step: int, values: Mapping[str, object]) -> None:
        """Remove the events after a step to which the run returns, and log the return."""
        self._file.close()
        self._board.close()
        self._board = _open_board(self.path.parent / TENSORBOARD, step)
        self._open_log(step)
        self.event("rollback", step, values)

    def event(self, kind: str, step: int, values: Mapping[str, object]) -> None:
        """Log an event to `log.jsonl`, and its numbers to TensorBoard and MLflow as `kind/name`.

        NaN and infinity become null in `log.jsonl`.
        """
        line: dict[str, object] = {"kind": kind, "step": step, "time": round(time.time(), 3)}
        line |= {name: _json_value(value) for name, value in values.items()}
        numbers = {
            f"{kind}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            for name, number in numbers.items():
                self._board.add_scalar(name, number, step)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(
                f"Cannot write {self.path}: {reason}. Free some disk space and start the run again."
            ) from error
        if self._tracking is not None:
            self._tracking.log(step, numbers)

    def close(self, finished: bool = True) -> None:
        """Close the log files; MLflow records whether the run finished."""
        # Every line was already flushed, or its error was raised.
        for sink in (self._file, self._board):
            with suppress(OSError):
                sink.close()
        if self._tracking is not None:
            self._tracking.close(finished)


def read_log(folder: Path) -> Iterator[dict[str, object]]:
    """Yield the events of a run in order, skipping incomplete lines."""
    yield from (event for _, event in _lines(folder / LOG))


def cut_log(path: Path, step: int) -> None:
    """Remove incomplete lines, and the events after a step, from a log file that may not exist."""
    if path.exists():
        kept = [line for line, event in _lines(path) if event["step"] <= step]
        with atomic_path(path) as partial:
            partial.write_text("".join(f"{line}\n" for line in kept), encoding="ascii")


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each complete line, both as text and as a parsed event."""
    # After a crash a line can contain arbitrary bytes. Lines that are not JSON are skipped.
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("step"), int):
            yield line, event


def _json_value(value: object) -> object:
    """Return the value, or None if it is NaN or infinite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _open_board(folder: Path, resume_step: int | None) -> Any:
    """Open the TensorBoard writer and hide earlier events after the resume step."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("training", "train") from None
    if resume_step is None:
        shutil.rmtree(folder, ignore_errors=True)
        return SummaryWriter(str(folder))
    return SummaryWriter(str(folder), purge_step=resume_step + 1)
