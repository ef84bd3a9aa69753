"""The tasks of a job done by processes of this machine.

A thread tends each process: gives it tasks, hears of its progress, and replaces it where it dies.
"""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType

from elmo.child_processes import Child, ChildEnded
from elmo.embed.job_folder import ShardRecord
from elmo.embed.job_texts import ShardTask
from elmo.embed.shard_worker import ShardJob, ShardWorker
from elmo.errors import OutputError

# Times that a task is begun before its workers' deaths are taken for its own fault.
TRIES = 3


def work_locally(
    job: ShardJob, tasks: Sequence[ShardTask], n_workers: int, advance: Callable[[float], None]
) -> Iterator[ShardRecord]:
    """Do tasks in child processes; give records as they come.

    Args:
        job: of all workers.
        tasks: to do.
        n_workers: processes at most.
        advance: told how many words are done, below zero where they are lost.
    """
    with LocalWorkers(job, tasks, min(n_workers, len(tasks))) as crew:
        for event in crew.events():
            if isinstance(event, int):
                advance(event)
            else:
                yield event


class LocalWorkers:
    """Processes that work, each tended by a thread."""

    def __init__(self, job: ShardJob, tasks: Sequence[ShardTask], n_workers: int) -> None:
        """Start them.

        Args:
            job: of all workers.
            tasks: to do, in this order.
            n_workers: how many processes.
        """
        self._job = job
        self._tasks = deque(tasks)
        self._children: set[Child] = set()
        self._is_closing = False
        self._lock = Lock()
        self._events: SimpleQueue[int | ShardRecord | Exception | None] = SimpleQueue()
        self._environment = {"OMP_NUM_THREADS": str(job.n_threads)}
        self._threads = [Thread(target=self._tend, daemon=True) for _ in range(n_workers)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "LocalWorkers":
        """Give the crew."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all processes; what they have finished stays."""
        with self._lock:
            self._is_closing = True
            for child in self._children:
                child.kill()
        for thread in self._threads:
            thread.join()

    def events(self) -> Iterator[int | ShardRecord]:
        """Give words done and records as they come, until all threads are done."""
        n_working = len(self._threads)
        while n_working:
            event = self._events.get()
            if event is None:
                n_working -= 1
            elif isinstance(event, Exception):
                raise event
            else:
                yield event

    def _tend(self) -> None:
        child: Child | None = None
        try:
            while (task := self._next_task()) is not None:
                for tries_left in reversed(range(TRIES)):
                    child = child or self._start()
                    if child is None:
                        return
                    try:
                        self._do(child, task)
                        break
                    except ChildEnded as ended:
                        self._end(child)
                        child = None
                        if not tries_left:
                            raise given_up(task, ended) from None
        except Exception as error:
            self._events.put(error)
        finally:
            if child is not None:
                self._end(child)
            self._events.put(None)

    def _next_task(self) -> ShardTask | None:
        with self._lock:
            return self._tasks.popleft() if self._tasks else None

    def _do(self, child: Child, task: ShardTask) -> None:
        told = 0

        def heard(n_words: int) -> None:
            nonlocal told
            told += n_words
            self._events.put(n_words)

        try:
            record: ShardRecord = child.ask(task, heard)
        except ChildEnded:
            self._events.put(-told)
            raise
        self._events.put(task.n_words - told)
        self._events.put(record)

    def _start(self) -> Child | None:
        """Start a process; None where no more are wanted."""
        with self._lock:
            if self._is_closing:
                return None
            child = Child(ShardWorker, self._job, environment=self._environment)
            self._children.add(child)
            return child

    def _end(self, child: Child) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()


def given_up(task: ShardTask, ended: ChildEnded | None = None) -> OutputError:
    """Say that workers die of a task.

    Args:
        task: which.
        ended: how the last of them did, where that is known.
    """
    last = ""
    if ended is not None and ended.status < 0:
        last = f", the last one killed by {signal.Signals(-ended.status).name}"
    elif ended is not None:
        last = f", the last one exit status {ended.status}"
    return OutputError(
        f"{TRIES} workers ended too early at shard {task.number:05d}{last}; what was finished "
        "stays. If memory ran out, use fewer --workers, then say the same again"
    )
