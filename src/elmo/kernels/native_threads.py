"""Threads that run calls of the native library in parallel."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from threading import Lock

import torch

# Multiplications of a task that take about ten times as long as scheduling the task.
MIN_TASK_WORK = 2**26
# Fewer multiplications are done before another thread has started.
MIN_THREADED_WORK = 2**21


def run_tasks(tasks: Iterable[Callable[[], bool | None]]) -> None:
    """Run tasks in parallel, with as many threads as PyTorch uses; the C code releases the GIL.

    A task that returns True is not finished and is called again after the other tasks, possibly by
    another thread. After an error, no further tasks are started.
    """
    queue = deque(tasks)
    stop = _StopFlag()

    def work() -> None:
        try:
            while queue and not stop.is_set:
                try:
                    task = queue.popleft()
                except IndexError:  # another thread took the last task
                    return
                if task() is True:
                    queue.append(task)
        except BaseException:
            stop.is_set = True
            raise

    n_others = min(torch.get_num_threads(), len(queue)) - 1
    if n_others < 1:
        return work()
    futures = [_thread_pool(n_others, os.getpid()).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        started = _wait_for(futures, stop)
    for future in started:
        future.result()


class _StopFlag:
    """Flag that prevents further tasks from starting."""

    is_set = False


def _wait_for(futures: list[Future[None]], stop: _StopFlag) -> list[Future[None]]:
    """Wait until no future is running, even if interrupted repeatedly.

    The memory that running calls write to must remain valid until then. Futures that have not
    started because the threads are busy with another caller are canceled. Returns the futures that
    were executed.
    """
    interrupt: BaseException | None = None
    while True:
        try:
            started = [future for future in futures if not future.cancel()]
            wait(started)
            break
        except BaseException as error:
            stop.is_set = True
            interrupt = error
    if interrupt is not None:
        raise interrupt
    return started


@cache
def _thread_pool(n: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of n threads for one process; forked processes do not inherit threads."""
    return ThreadPoolExecutor(n, "native", _initialize_thread, (_free_cores(),))


def _initialize_thread(cores: set[int]) -> None:
    """Initialize a worker thread and bind it to the given cores, if any."""
    if cores:
        os.sched_setaffinity(0, cores)
    # OpenMP's threads spin on their cores while they wait for PyTorch's next call, and leave no
    # core to ours. They stop spinning when there are more OpenMP threads than cores: so one of our
    # threads starts a second OpenMP team.
    if _first_thread_lock(os.getpid()).acquire(blocking=False):
        _start_openmp_threads()


@cache
def _first_thread_lock(process: int) -> Lock:
    """Return a lock that only the first thread of a process acquires."""
    return Lock()


def _start_openmp_threads() -> None:
    """Run a parallel operation, so that OpenMP starts its threads."""
    torch.zeros(2**20).add_(1)


def _free_cores() -> set[int]:
    """Return the cores to which OpenMP has bound its other threads; empty if there are none.

    A new thread inherits the affinity of its creator. With `OMP_PROC_BIND`, all worker threads
    would therefore share the core of the calling thread.
    """
    is_bound = os.environ.get("OMP_PROC_BIND", "false").lower() != "false"
    if not is_bound or not hasattr(os, "sched_getaffinity"):
        return set()
    _start_openmp_threads()  # one on each core that OpenMP may use
    cores: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            cores |= os.sched_getaffinity(int(thread))
    return cores - os.sched_getaffinity(0)


def round_up(n: int, multiple: int) -> int:
    """Round n up to a multiple of `multiple`."""
    return n + -n % multiple


def split_range(n: int, multiple: int, work: int) -> list[tuple[int, int]]:
    """Split a range from 0 to `n` into parts (start, end) to be processed by several threads.

    The size of every part except the last is a multiple of `multiple`; `work` is the number of
    operations per element. A range with very little work is not split, and a range with little work
    is split into two parts per thread. Otherwise the parts get smaller toward the end of the range,
    down to MIN_TASK_WORK, so that all threads finish at about the same time even if some are
    slower.
    """
    n_threads = torch.get_num_threads()
    n_parts = 2 * n_threads if n_threads > 1 and n * work >= MIN_THREADED_WORK else 1
    least = min(-(-n // n_parts), MIN_TASK_WORK // max(1, work))
    parts, first = [], 0
    while first < n:
        width = max(multiple, round_up(max(least, -(-(n - first) // n_parts)), multiple))
        parts.append((first, min(first + width, n)))
        first += width
    return parts
