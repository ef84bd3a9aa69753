"""The process of a headless browser."""

import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

# Seconds that a browser has for its end.
END_SECONDS = 5.0


@contextmanager
def browser_process(
    command: Sequence[str],
    *,
    pass_fds: Collection[int] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process without input and output; wait for its end after the block, or kill it.

    Args:
        command: Program and arguments.
        pass_fds: File descriptors that the process inherits.
        env: Environment of the process; that of this one by default.
    """
    process = subprocess.Popen(
        command,
        pass_fds=pass_fds,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
