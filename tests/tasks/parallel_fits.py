"""Functions for child processes in tests; it imports little, because each process imports it."""

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
