"""Runs the tasks of a job in worker processes on this machine.

Each process is supervised by a thread that assigns tasks, receives progress updates, and restarts
the process if it dies.
"""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Lock, Thread

from elmo.child_processes import Child, ChildEnded
from elmo.embed.job_records import ShardRecord
from elmo.embed.job_texts import ShardTask
from elmo.embed.shard_worker import ShardJob, ShardWorker
from elmo.errors import OutputError

ShardProcess = Child[ShardTask, int, ShardRecord]

# Number of workers that may die on the same task before the job fails.
MAX_TRIES = 3


def run_locally(
    job: ShardJob, tasks: Sequence[ShardTask], n_workers: int, advance: Callable[[float], None]
) -> Iterator[ShardRecord]:
    """Run tasks in child processes and yield their records as they finish.

    `advance` receives the number of newly finished words, which is negative if the work of a dead
    worker is lost.
    """
    with LocalWorkers(job, tasks, min(n_workers, len(tasks))) as workers:
        for event in workers.events():
            if isinstance(event, int):
                advance(event)
            else:
                yield event


class LocalWorkers:
    """A pool of worker processes, each supervised by a thread."""

    def __init__(self, job: ShardJob, tasks: Sequence[ShardTask], n_workers: int) -> None:
        """Start the threads, which start the processes."""
        self._job = job
        self._tasks = deque(tasks)
        self._children: set[ShardProcess] = set()
        self._is_closing = False
        self._lock = Lock()
        self._events: SimpleQueue[int | ShardRecord | Exception | None] = SimpleQueue()
        self._environment = {"OMP_NUM_THREADS": str(job.n_threads)}
        self._threads = [Thread(target=self._supervise, daemon=True) for _ in range(n_workers)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "LocalWorkers":
        return self

    def __exit__(self, *error: object) -> None:
        """Kill all worker processes; finished shards remain on disk."""
        with self._lock:
            self._is_closing = True
            for child in self._children:
                child.kill()
        for thread in self._threads:
            thread.join()

    def events(self) -> Iterator[int | ShardRecord]:
        """Yield word counts and records as they arrive, until all threads have ended."""
        n_running = len(self._threads)
        while n_running:
            event = self._events.get()
            if event is None:
                n_running -= 1
            elif isinstance(event, Exception):
                raise event
            else:
                yield event

    def _supervise(self) -> None:
        child: ShardProcess | None = None
        try:
            while (task := self._next_task()) is not None:
                for tries_left in reversed(range(MAX_TRIES)):
                    child = child or self._start()
                    if child is None:
                        return
                    try:
                        self._run_task(child, task)
                        break
                    except ChildEnded as ended:
                        self._end(child)
                        child = None
                        if not tries_left:
                            raise workers_died_error(task, ended) from None
        except Exception as error:
            self._events.put(error)
        finally:
            if child is not None:
                self._end(child)
            self._events.put(None)

    def _next_task(self) -> ShardTask | None:
        with self._lock:
            return self._tasks.popleft() if self._tasks else None

    def _run_task(self, child: ShardProcess, task: ShardTask) -> None:
        n_reported = 0

        def report(n_words: int) -> None:
            nonlocal n_reported
            n_reported += n_words
            self._events.put(n_words)

        try:
            record = child.ask(task, report)
        except ChildEnded:
            self._events.put(-n_reported)
            raise
        self._events.put(task.n_words - n_reported)
        self._events.put(record)

    def _start(self) -> ShardProcess | None:
        """Start a process; return None if the pool is closing."""
        with self._lock:
            if self._is_closing:
                return None
            child = Child(ShardWorker, self._job, environment=self._environment)
            self._children.add(child)
            return child

    def _end(self, child: ShardProcess) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()


def workers_died_error(task: ShardTask, ended: ChildEnded | None = None) -> OutputError:
    """Return the error for a task on which several workers died."""
    last = ""
    if ended is not None and ended.status < 0:
        last = f" (the last one was killed by {signal.Signals(-ended.status).name})"
    elif ended is not None:
        last = f" (the last one had exit status {ended.status})"
    return OutputError(
        f"{MAX_TRIES} workers died while writing shard {task.number:05d}{last}. Finished shards "
        "are kept. If memory ran out, use fewer --workers and run the same command again."
    )
