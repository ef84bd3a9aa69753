"""Workers side by side.

Only small answers travel back from a worker; its numbers stay in its files. The processes are plain
children that speak through their standard input and output: they run nothing of the calling script,
hear no Ctrl-C of their own, and end when their parent does.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from elmo.corpus.workers import Job, Piece, Task, Worker
from elmo.errors import OutputError


def split_blocks(
    job: Job, tasks: Iterator[Task], n_workers: int, report: Callable[[int], None]
) -> tuple[list[Piece], list[str]]:
    """Split blocks in several processes; what comes back is in the order of the blocks.

    Args:
        job: of all workers.
        tasks: the blocks; read as far as the workers need them.
        n_workers: processes at most; one block, or one worker, needs none.
        report: told how many bytes of the files are done with.

    Returns:
        The pieces, one for each block, and the names of all runs.
    """
    first = list(islice(tasks, 2))
    pieces = []
    if n_workers == 1 or len(first) < 2:
        worker = Worker(job, 0)
        for task in chain(first, tasks):
            pieces.append(worker.work(task))
            report(task.block.n_read)
        return pieces, worker.finish()
    with Processes(job, n_workers) as processes:
        for piece, n_read in processes.work(chain(first, tasks)):
            pieces.append(piece)
            report(n_read)
        return pieces, processes.finish()


class Processes:
    """Workers in processes of their own."""

    def __init__(self, job: Job, n_workers: int) -> None:
        """Start them.

        Args:
            job: of all workers.
            n_workers: how many.
        """
        self._children: list[Child] = []
        self._idle: SimpleQueue[Child] = SimpleQueue()
        # A thread waits for each child, so that this process can read on.
        self._threads = ThreadPoolExecutor(n_workers)
        try:
            for number in range(n_workers):
                self._children.append(Child(job, number))
                self._idle.put(self._children[-1])
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> "Processes":
        """Give the processes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End them; nothing is lost where they have finished."""
        for child in self._children:
            child.kill()
        self._threads.shutdown(cancel_futures=True)

    def work(self, tasks: Iterator[Task]) -> Iterator[tuple[Piece, int]]:
        """Give pieces in order, and the bytes read for each; two blocks a child are under way."""
        waiting: deque[tuple[Future[Piece], int]] = deque()
        for task in tasks:
            waiting.append((self._threads.submit(self._ask, task), task.block.n_read))
            if len(waiting) > 2 * len(self._children):
                done, n_read = waiting.popleft()
                yield done.result(), n_read
        for done, n_read in waiting:
            yield done.result(), n_read

    def finish(self) -> list[str]:
        """Have all write their last runs at the same time; give the names of all runs."""
        runs = self._threads.map(lambda child: child.ask(None), self._children)
        return [run for names in runs for run in names]

    def _ask(self, task: Task) -> Piece:
        child = self._idle.get()
        try:
            piece: Piece = child.ask(task)
            return piece
        finally:
            self._idle.put(child)


class Child:
    """One process; requests and answers are pickled through its pipes."""

    def __init__(self, job: Job, number: int) -> None:
        """Start it.

        Args:
            job: of all workers.
            number: of this one.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "elmo.corpus.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        self._first: tuple[Any, ...] = (job, number)

    def ask(self, request: Task | None) -> Any:
        """Send a request and wait for the answer; an error there is raised here."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            pickle.dump((*self._first, request), requests)
            self._first = ()
            requests.flush()
            answer = pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise OutputError(
                f"a worker process ended too early (exit status {self._process.wait()}); nothing "
                "was left behind. If memory ran out, use fewer --workers"
            ) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def serve() -> None:
    """Be a child: answer requests until the parent has no more."""
    requests = sys.stdin.buffer
    # What a tokeniser may print must not get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker: Worker | None = None
    while True:
        try:
            *first, request = pickle.load(requests)
        except EOFError:
            return
        try:
            worker = Worker(*first) if first else worker
            assert worker is not None
            answer: Any = worker.finish() if request is None else worker.work(request)
        except Exception as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
