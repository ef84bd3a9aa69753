"""Runs `elmo` commands in processes forked from a server that has already imported all modules.

Tests that kill and restart a command would otherwise spend most of their time on imports.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

# Modules that a training run imports.
MODULES = [
    *("elmo.cli", "elmo.train.pretrain_model"),
    *("lightning.fabric", "matplotlib.figure", "torch.utils.tensorboard"),
]
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(MODULES)


def start(words: list[str], output: Path) -> BaseProcess:
    """Start an `elmo` command with the given arguments and append its output to a file."""
    process = context.Process(target=_become, args=(words, str(output)))
    process.start()
    return process


def _become(words: list[str], output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    # Processes in the background of a shell ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["elmo", *words]
    runpy.run_module("elmo", run_name="__main__", alter_sys=True)
