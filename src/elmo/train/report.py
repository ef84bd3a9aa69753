"""What a run tells while it goes on: `log.jsonl`, TensorBoard, and MLflow where asked for.

`log.jsonl` is the record: a line for each event, written through at once, so that a killed process
loses at most the line it was writing. On resume it is cut back to the step the run goes on from.
Only one process of a run makes a `Report`.
"""

import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from elmo.errors import MissingExtra, OutputError
from elmo.files import atomic_path
from elmo.train.mlflow_tracking import Tracking
from elmo.train.trainable import RunSettings

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class Report:
    """The reports of one run, to its training folder."""

    def __init__(self, folder: Path, config: RunSettings, resume_step: int | None = None) -> None:
        """Begin, or go on.

        Args:
            folder: the training folder.
            config: of the run.
            resume_step: the step the run goes on from; what was told of later ones is taken back.
                None begins anew.
        """
        # What can fail comes first, before anything is taken back.
        self._tracking: Tracking | None = None
        if config.run.mlflow:
            self._tracking = Tracking(folder, config, is_new=resume_step is None)
        self._board = _open_board(folder / TENSORBOARD, resume_step)
        self.path = folder / LOG
        cut_log(self.path, -1 if resume_step is None else resume_step)
        self._file = self.path.open("a", encoding="ascii")

    def __enter__(self) -> "Report":
        """Begin to tell."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; MLflow is told whether the run came to its end."""
        self.close(finished=error is None)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Tell of a step of training."""
        self.event("step", step, values)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Tell of an evaluation on held-out text after a step."""
        self.event("evaluation", step, values)
        # Evaluations are rare and what a watcher waits for.
        self._board.flush()

    def event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Tell of anything: a line of the log, and numbers to whoever draws them.

        Args:
            kind: of event; numbers are drawn under `kind/name`.
            step: when.
            values: numbers and other plain data; a number that is none (NaN) is null in the log.
        """
        line = {"kind": kind, "step": step, "time": round(time.time(), 3)}
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
                f"cannot write {self.path}: {reason}; make room, start again"
            ) from error
        if self._tracking is not None:
            self._tracking.log(step, numbers)

    def close(self, finished: bool = True) -> None:
        """Write out what is left.

        Args:
            finished: whether the run came to its end.
        """
        # Every line was written through, or its failure told.
        for sink in (self._file, self._board):
            with suppress(OSError):
                sink.close()
        if self._tracking is not None:
            self._tracking.close(finished)


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the events of a run in order; a line that was not finished is passed over."""
    yield from (event for _, event in _lines(folder / LOG))


def cut_log(path: Path, step: int) -> None:
    """Take back what was told of later steps, and half a line where one was left.

    Args:
        path: the log; nothing is done where there is none.
        step: the last one to keep.
    """
    if path.exists():
        kept = [line for line, event in _lines(path) if event["step"] <= step]
        with atomic_path(path) as partial:
            partial.write_text("".join(f"{line}\n" for line in kept), encoding="ascii")


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each whole line as text and as an event."""
    # A torn page may hold anything; such a line is no JSON and is passed over.
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("step"), int):
            yield line, event


def _json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _open_board(folder: Path, resume_step: int | None) -> Any:
    """Open TensorBoard's writer, hiding what an earlier process told of steps to come."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("training", "train") from None
    if resume_step is None:
        shutil.rmtree(folder, ignore_errors=True)
        return SummaryWriter(str(folder))
    return SummaryWriter(str(folder), purge_step=resume_step + 1)
