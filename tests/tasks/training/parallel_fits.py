"""Functions that tests run in child processes.

Each child process imports this module, so it has few imports.
"""

import os
import signal
import sys

from elmo.errors import ElmoError


def report_process(config):
    sys.stderr.write("output\n")
    return {"out": config.out, "process": os.getpid()}


def fail_if_bad(config):
    if config.out.endswith("bad"):
        raise ElmoError("example error")
    return {}


def kill_process(config):
    os.kill(os.getpid(), signal.SIGKILL)
