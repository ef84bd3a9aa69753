"""Parallel processing of text blocks: workers write word ids to files and return a summary."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from queue import SimpleQueue

from elmo.child_processes import Child, ChildEnded
from elmo.corpus.block_worker import BlockWorker, CountedBlock, CountingJob, CountingTask
from elmo.errors import OutputError

WorkerProcess = Child[CountingTask | None, object, CountedBlock | list[str]]


def process_blocks(
    job: CountingJob, tasks: Iterator[CountingTask], n_workers: int, report: Callable[[int], None]
) -> tuple[list[CountedBlock], list[str]]:
    """Tokenize blocks in several processes; return them in order, and the names of all runs.

    With one worker or one block, the work is done in the current process. `report` is called with
    the number of bytes read for each finished block.
    """
    first = list(islice(tasks, 2))
    blocks = []
    if n_workers == 1 or len(first) < 2:
        worker = BlockWorker(job, 0)
        for task in chain(first, tasks):
            blocks.append(worker.process(task))
            report(task.block.n_read)
        return blocks, worker.finish()
    with WorkerPool(job, n_workers) as pool:
        for block, n_read in pool.process(chain(first, tasks)):
            blocks.append(block)
            report(n_read)
        return blocks, pool.finish()


class WorkerPool:
    """A pool of processes that tokenize text blocks."""

    def __init__(self, job: CountingJob, n_workers: int) -> None:
        """Start the worker processes."""
        self._children: list[WorkerProcess] = []
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        # One thread waits for each child, so that this process can continue to read text.
        self._threads = ThreadPoolExecutor(n_workers)
        try:
            for number in range(n_workers):
                self._children.append(Child(BlockWorker, job, number))
                self._idle.put(self._children[-1])
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *error: object) -> None:
        """Kill the worker processes; finished results are already in files."""
        for child in self._children:
            child.kill()
        self._threads.shutdown(cancel_futures=True)
        for child in self._children:
            child.close()

    def process(self, tasks: Iterator[CountingTask]) -> Iterator[tuple[CountedBlock, int]]:
        """Yield blocks in order with the bytes read for each; two per worker are in progress."""
        pending: deque[tuple[Future[CountedBlock], int]] = deque()
        for task in tasks:
            pending.append((self._threads.submit(self._submit, task), task.block.n_read))
            if len(pending) > 2 * len(self._children):
                future, n_read = pending.popleft()
                yield future.result(), n_read
        for future, n_read in pending:
            yield future.result(), n_read

    def finish(self) -> list[str]:
        """Write the last runs of all workers in parallel, and return the names of all runs."""
        runs = self._threads.map(_finish, self._children)
        return [run for names in runs for run in names]

    def _submit(self, task: CountingTask) -> CountedBlock:
        child = self._idle.get()
        try:
            block = _request(child, task)
            assert isinstance(block, CountedBlock)
            return block
        finally:
            self._idle.put(child)


def _finish(child: WorkerProcess) -> list[str]:
    runs = _request(child, None)
    assert isinstance(runs, list)
    return runs


def _request(child: WorkerProcess, request: CountingTask | None) -> CountedBlock | list[str]:
    """Send a request to a worker process and return its response."""
    try:
        return child.ask(request)
    except ChildEnded as ended:
        raise OutputError(
            f"A worker process ended unexpectedly (exit status {ended.status}). No partial files "
            "were left. If memory ran out, use fewer --workers."
        ) from None
