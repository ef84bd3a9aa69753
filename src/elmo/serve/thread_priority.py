"""Priority of the threads that compute."""

import os
import sys
import threading
from contextlib import suppress

# Without a difference, a new request waits until a computing thread has used up its time slice if
# all cores compute.
COMPUTE_NICENESS = 5


def lower_thread_priority() -> None:
    """Lower the priority of this thread and of the threads that it starts, on Linux.

    The event loop then runs first. Other systems have one priority for all threads of a process.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox can forbid it
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.nice(0) + COMPUTE_NICENESS)
