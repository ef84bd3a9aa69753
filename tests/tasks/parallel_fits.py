"""What processes are asked to do in tests; little is imported, for each of them imports it anew."""

import os
import signal
import sys

from elmo.errors import ElmoError


def named(config):
    sys.stderr.write("said\n")
    return {"out": config.out, "process": os.getpid()}


def failing(config):
    if config.out.endswith("bad"):
        raise ElmoError("no such thing")
    return {}


def ended(config):
    os.kill(os.getpid(), signal.SIGKILL)
