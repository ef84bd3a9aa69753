"""Commands of elmo in processes forked from one that has imported everything.

A process that is killed and started again a few times spends most of its time with imports.
"""

import multiprocessing
import os
import runpy
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

# What a run imports sooner or later.
MODULES = [
    *("elmo.cli", "elmo.train.pretrain_model"),
    *("lightning.fabric", "matplotlib.figure", "torch.utils.tensorboard"),
]
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(MODULES)


def start(words: list[str], told: Path) -> BaseProcess:
    """Start `elmo WORDS`; what it says goes to a file."""
    process = _context.Process(target=_become, args=(words, str(told)))
    process.start()
    return process


def _become(words: list[str], told: str) -> None:
    file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    sys.argv = ["elmo", *words]
    runpy.run_module("elmo", run_name="__main__", alter_sys=True)
