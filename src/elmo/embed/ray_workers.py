"""The tasks of a job done by actors of a Ray cluster, in place of processes of this machine.

Plan, shards and records are the same, so a job may go on with either. Every machine must see the
texts, the model and the folder under the same paths.
"""

import logging
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from elmo.child_processes import portable
from elmo.embed.job_folder import SHARDS, ShardRecord
from elmo.embed.job_texts import ShardTask
from elmo.embed.local_workers import TRIES, given_up
from elmo.embed.shard_worker import ShardJob, ShardWorker
from elmo.errors import MissingExtra, OutputError


def work_on_ray(
    job: ShardJob, tasks: Sequence[ShardTask], n_workers: int, advance: Callable[[float], None]
) -> Iterator[ShardRecord]:
    """Do tasks in actors; give records as they come. Ray replaces actors that die, without an end.

    Args:
        job: of all workers.
        tasks: to do.
        n_workers: actors; each has its threads' cores, and a GPU where that is the device.
        advance: told how many words are done.
    """
    ray = find_ray()
    words = {task.number: task.n_words for task in tasks}
    with _connected(ray):
        # One row a block: a task is what is given out, and what comes back when it is done.
        rows = ray.data.from_items(
            [{"task": pickle.dumps(task)} for task in tasks], override_num_blocks=len(tasks)
        )
        done = rows.map(
            cast(Any, RayActor),
            fn_constructor_args=(job,),
            compute=ray.data.ActorPoolStrategy(size=min(n_workers, len(tasks))),
            num_cpus=job.n_threads,
            num_gpus=1 if job.settings.device == "cuda" else None,
        )
        try:
            for row in done.iter_rows():
                answer = pickle.loads(row["answer"])
                if isinstance(answer, Exception):
                    raise answer
                advance(words[answer.number])
                yield answer
        except ray.exceptions.RayError as error:
            raise _told("Ray gave up", error) from None


def find_ray() -> Any:
    """Give Ray, or say what it comes with."""
    try:
        import ray.data
        import ray.exceptions
    except ImportError:
        raise MissingExtra("the engine ray", "scale") from None
    return ray


def _told(what: str, error: Exception) -> OutputError:
    reason = " ".join(str(error).split())[:200]
    return OutputError(f"{what}: {reason}; what was finished stays, and the same command goes on")


class RayActor:
    """A worker as Ray wants it: rows in, rows out."""

    def __init__(self, job: ShardJob) -> None:
        """Wait for the first row.

        Args:
            job: of all workers.
        """
        self._job = job
        self._worker: ShardWorker | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, bytes]:
        """Do a task; an error is an answer too, since Ray would begin anew and hide it."""
        answer: ShardRecord | Exception
        try:
            task = pickle.loads(row["task"])
            with self._counted(task):
                self._worker = self._worker or ShardWorker(self._job)
                answer = self._worker(task, lambda n_words: None)
        except Exception as error:
            answer = portable(error)
        return {"answer": pickle.dumps(answer)}

    @contextmanager
    def _counted(self, task: ShardTask) -> Iterator[None]:
        """Refuse a task that several actors died of: a byte for each stands beside its shard."""
        # A job that begins clears such names away, and with them what was counted before.
        path = self._job.folder / SHARDS / f".{task.number:05d}.tries.partial"
        with path.open("ab") as file:
            file.write(b".")
            n_tries = file.tell()
        if n_tries > TRIES:
            raise given_up(task)
        yield
        path.unlink(missing_ok=True)


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """Join the cluster there is ($RAY_ADDRESS, or one begun on this machine), or begin one."""
    # Our progress tells of the whole job; what Ray has to say besides is in its log files.
    context, told = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    shown, level = context.enable_progress_bars, told.level
    context.enable_progress_bars = False
    told.setLevel(logging.CRITICAL)
    ours = not ray.is_initialized()
    try:
        if ours:
            _begin(ray)
        yield
    finally:
        context.enable_progress_bars = shown
        told.setLevel(level)
        if ours:
            ray.shutdown()


def _begin(ray: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(logging_level="error", log_to_driver=False)
    except Exception as error:  # Ray has no class of its own for this
        raise _told("Ray does not start, or its cluster does not answer", error) from None
    finally:
        # Ray takes the signal for itself; the exit code of a command is ours.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
