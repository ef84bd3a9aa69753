"""Runs training with several seeds in parallel, each in its own process.

A small model leaves most of a device idle, so several runs take little longer than one. Child
processes are stopped when the parent process ends. Each run writes its own checkpoints, so running
the same command again resumes it.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from elmo.child_processes import Child, ChildEnded, Handler, threads_each
from elmo.errors import OutputError
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.training.fit_result import SeedRun

OUTPUT = "output.txt"

# Must be a module-level function, because the child process imports it by name.
Fit = Callable[[TaskConfig], SeedRun]


def run_in_parallel(fit: Fit, configs: Sequence[TaskConfig], n: int) -> list[SeedRun]:
    """Run a function for each config in up to `n` processes; return results in this order.

    Each config has its own output folder, which also contains the log.
    """
    n = min(n, len(configs))
    # Processes that each use all cores would slow each other down.
    environment = {"OMP_NUM_THREADS": str(threads_each(n))}
    children: list[Child[TaskConfig, object, SeedRun]] = []
    lock = Lock()

    def run(config: TaskConfig) -> SeedRun:
        with lock:
            child = Child(_redirected, fit, environment=environment)
            children.append(child)
        try:
            return child.ask(config)
        except ChildEnded as ended:
            raise OutputError(
                f"The run in {config.out} ended early (exit status {ended.status}). "
                "To resume from its last checkpoint, run the same command again."
            ) from None
        finally:
            child.close()

    with ThreadPoolExecutor(n) as threads:
        futures = [threads.submit(run, config) for config in configs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            with lock:
                for child in children:
                    child.kill()
            raise


def _redirected(fit: Fit) -> Handler[TaskConfig, object, SeedRun]:
    """Wrap a function so that its output goes to a file, not into a mix with other processes."""

    def work(config: TaskConfig, report: Callable[[object], None]) -> SeedRun:
        folder = Path(config.out)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / OUTPUT).open("ab") as file:
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), 1)
            return fit(config)

    return work
