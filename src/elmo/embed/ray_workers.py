"""Runs the tasks of a job in actors on a Ray cluster.

The plan, the shards and the records are the same as with local workers, so either engine can resume
a job. The texts, the model and the job folder must have the same paths on every machine.
"""

import logging
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from elmo.child_processes import portable
from elmo.embed.job_folder import SHARDS
from elmo.embed.job_records import ShardRecord
from elmo.embed.job_texts import ShardTask
from elmo.embed.local_workers import MAX_TRIES, workers_died_error
from elmo.embed.shard_worker import ShardJob, ShardWorker
from elmo.errors import MissingExtra, OutputError, shortened


def run_on_ray(
    job: ShardJob, tasks: Sequence[ShardTask], n_workers: int, advance: Callable[[float], None]
) -> Iterator[ShardRecord]:
    """Run tasks in Ray actors and yield their records as they finish.

    Each actor reserves one core per thread, and a GPU if the device is "cuda". Ray restarts dead
    actors without limit; `RayActor` limits the number of attempts per task. `advance` receives the
    number of words in each finished task.
    """
    ray = import_ray()
    n_words = {task.number: task.n_words for task in tasks}
    with _connected(ray):
        # One row per block, so that Ray schedules and returns single tasks.
        rows = ray.data.from_items(
            [{"task": pickle.dumps(task)} for task in tasks], override_num_blocks=len(tasks)
        )
        results = rows.map(
            RayActor,
            fn_constructor_args=(job,),
            compute=ray.data.ActorPoolStrategy(size=min(n_workers, len(tasks))),
            num_cpus=job.n_threads,
            num_gpus=1 if job.settings.device == "cuda" else None,
        )
        try:
            for row in results.iter_rows():
                answer = pickle.loads(row["answer"])
                if isinstance(answer, Exception):
                    raise answer
                advance(n_words[answer.number])
                yield answer
        except ray.exceptions.RayError as error:
            raise _ray_error("Ray failed", error) from None


def import_ray() -> ModuleType:
    """Import and return Ray."""
    try:
        import ray.data
        import ray.exceptions
    except ImportError:
        raise MissingExtra("--engine ray", "scale") from None
    return ray


def _ray_error(summary: str, error: Exception) -> OutputError:
    return OutputError(
        f"{summary}: {shortened(error)}. Finished shards are kept; run the same command again to "
        "resume."
    )


class RayActor:
    """Ray Data worker that maps a row containing a task to a row containing its record."""

    def __init__(self, job: ShardJob) -> None:
        """Store the job; the model is loaded when the first row is processed."""
        self._job = job
        self._worker: ShardWorker | None = None

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        """Run a task and return its record, or the exception, since Ray would hide a raised one."""
        answer: ShardRecord | Exception
        try:
            task = pickle.loads(row["task"])
            with self._limited_tries(task):
                self._worker = self._worker or ShardWorker(self._job)
                answer = self._worker(task, lambda n_words: None)
        except Exception as error:
            answer = portable(error)
        return {"answer": pickle.dumps(answer)}

    @contextmanager
    def _limited_tries(self, task: ShardTask) -> Iterator[None]:
        """Count the attempts at a task in a file next to its shard, one byte per attempt."""
        # A starting job removes files with such names, which resets the counts.
        path = self._job.folder / SHARDS / f".{task.number:05d}.tries.partial"
        with path.open("ab") as file:
            file.write(b".")
            n_tries = file.tell()
        if n_tries > MAX_TRIES:
            raise workers_died_error(task)
        yield
        path.unlink(missing_ok=True)


@contextmanager
def _connected(ray: ModuleType) -> Iterator[None]:
    """Connect to the Ray cluster at $RAY_ADDRESS or on this machine, or start a new one."""
    # Our progress line covers the whole job; Ray writes its own messages to log files.
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    shown, level = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.CRITICAL)
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _init(ray)
        yield
    finally:
        context.enable_progress_bars = shown
        logger.setLevel(level)
        if is_ours:
            ray.shutdown()


def _init(ray: ModuleType) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(logging_level="error", log_to_driver=False)
    except Exception as error:  # Ray has no specific class for this
        raise _ray_error("Cannot start Ray or connect to its cluster", error) from None
    finally:
        # Ray replaces the handler, which would change the exit status of the command.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
