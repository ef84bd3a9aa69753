"""Training runs of several seeds in parallel, each in its own process.

A small model leaves most of a device idle, so several runs cost little more than one. Child
processes end with their parent; each run keeps its checkpoints, so the same command resumes it.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from elmo.child_processes import Child, ChildEnded, Handler, threads_each
from elmo.config import TaskConfig
from elmo.errors import OutputError

OUTPUT = "output.txt"

# A module-level function, which the child process imports by name.
Fit = Callable[[TaskConfig], dict[str, Any]]


def run_in_parallel(fit: Fit, configs: Sequence[TaskConfig], n: int) -> list[dict[str, Any]]:
    """Run a function for all configs, `n` at a time; return the results in their order.

    Args:
        fit: Returns JSON data.
        configs: Configs of runs, each with its own folder, to which the output of the run goes.
        n: Number of processes.
    """
    n = min(n, len(configs))
    # Processes that each use all cores would slow each other down.
    environment = {"OMP_NUM_THREADS": str(threads_each(n))}
    children: list[Child] = []
    lock = Lock()

    def run(config: TaskConfig) -> dict[str, Any]:
        with lock:
            child = Child(_redirected, fit, environment=environment)
            children.append(child)
        try:
            result: dict[str, Any] = child.ask(config)
        except ChildEnded as ended:
            raise OutputError(
                f"The run in {config.out} ended early (exit status {ended.status}). Its "
                "checkpoints are kept; run the same command again to resume."
            ) from None
        finally:
            child.close()
        return result

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


def _redirected(fit: Fit) -> Handler:
    """Wrap a function so that its output goes to a file; mixed output would be unreadable."""

    def work(config: TaskConfig, report: Callable[[Any], None]) -> dict[str, Any]:
        folder = Path(config.out)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / OUTPUT).open("ab") as file:
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), 1)
            return fit(config)

    return work
