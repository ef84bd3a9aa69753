"""Workers side by side: only small answers travel back, the numbers stay in files."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from elmo.child_processes import Child, ChildEnded
from elmo.corpus.block_worker import BlockWorker, CountedBlock, CountingJob, CountingTask
from elmo.errors import OutputError


def split_blocks(
    job: CountingJob, tasks: Iterator[CountingTask], n_workers: int, report: Callable[[int], None]
) -> tuple[list[CountedBlock], list[str]]:
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
        worker = BlockWorker(job, 0)
        for task in chain(first, tasks):
            pieces.append(worker.work(task))
            report(task.block.n_read)
        return pieces, worker.finish()
    with WorkerPool(job, n_workers) as processes:
        for piece, n_read in processes.work(chain(first, tasks)):
            pieces.append(piece)
            report(n_read)
        return pieces, processes.finish()


class WorkerPool:
    """Workers in processes of their own."""

    def __init__(self, job: CountingJob, n_workers: int) -> None:
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
                self._children.append(Child(BlockWorker, job, number))
                self._idle.put(self._children[-1])
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> "WorkerPool":
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
        for child in self._children:
            child.close()

    def work(self, tasks: Iterator[CountingTask]) -> Iterator[tuple[CountedBlock, int]]:
        """Give pieces in order, and the bytes read for each; two blocks a child are under way."""
        waiting: deque[tuple[Future[CountedBlock], int]] = deque()
        for task in tasks:
            waiting.append((self._threads.submit(self._ask, task), task.block.n_read))
            if len(waiting) > 2 * len(self._children):
                done, n_read = waiting.popleft()
                yield done.result(), n_read
        for done, n_read in waiting:
            yield done.result(), n_read

    def finish(self) -> list[str]:
        """Have all write their last runs at the same time; give the names of all runs."""
        runs = self._threads.map(lambda child: _answer(child, None), self._children)
        return [run for names in runs for run in names]

    def _ask(self, task: CountingTask) -> CountedBlock:
        child = self._idle.get()
        try:
            piece: CountedBlock = _answer(child, task)
            return piece
        finally:
            self._idle.put(child)


def _answer(child: Child, request: CountingTask | None) -> Any:
    try:
        return child.ask(request)
    except ChildEnded as ended:
        raise OutputError(
            f"a worker process ended too early (exit status {ended.status}); nothing was left "
            "behind. If memory ran out, use fewer --workers"
        ) from None
