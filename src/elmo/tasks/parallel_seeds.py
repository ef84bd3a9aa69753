"""Runs of several seeds at the same time, each in a process of its own.

A small model leaves most of a device idle, so that several cost little more than one. Processes end
with the one that started them; each run is kept as ever, so that the same command goes on.
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

TOLD = "told.txt"

# What is done for a config; a function of a module, for a process has to find it by name.
Fit = Callable[[TaskConfig], dict[str, Any]]


def run_in_parallel(fit: Fit, configs: Sequence[TaskConfig], n: int) -> list[dict[str, Any]]:
    """Do the same for all configs, `n` at a time; results are in their order.

    Args:
        fit: gives plain data.
        configs: of runs in folders of their own; what a run says goes to a file there.
        n: processes.
    """
    n = min(n, len(configs))
    # Processes that each take all cores wait for one another.
    environment = {"OMP_NUM_THREADS": str(threads_each(n))}
    children: list[Child] = []
    lock = Lock()

    def one(config: TaskConfig) -> dict[str, Any]:
        with lock:
            child = Child(_quietly, fit, environment=environment)
            children.append(child)
        try:
            found: dict[str, Any] = child.ask(config)
        except ChildEnded as ended:
            raise OutputError(
                f"the run in {config.out} ended too early (exit status {ended.status}); what it "
                "had kept is there, and the same command goes on"
            ) from None
        finally:
            child.close()
        return found

    with ThreadPoolExecutor(n) as threads:
        futures = [threads.submit(one, config) for config in configs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            with lock:
                for child in children:
                    child.kill()
            raise


def _quietly(fit: Fit) -> Handler:
    """Do what is asked for; what is said goes to a file, for several at once could not be read."""

    def work(config: TaskConfig, tell: Callable[[Any], None]) -> dict[str, Any]:
        folder = Path(config.out)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / TOLD).open("ab") as file:
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), 1)
            return fit(config)

    return work
