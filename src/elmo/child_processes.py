"""Child processes that answer requests.

They are plain children that speak through their standard input and output: they run nothing of the
calling script, hear no Ctrl-C of their own, and end when their parent does, also in the middle of
their work and also when it was killed.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from elmo.errors import ElmoError

# Takes a request, and something to tell the parent of its progress with; gives the answer.
Work = Callable[[Any, Callable[[Any], None]], Any]

LENGTH_BYTES = 8
NOTE, ANSWER, ERROR = range(3)


def threads_each(n_processes: int) -> int:
    """Share the cores of this machine out to processes; $OMP_NUM_THREADS wins."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdigit() and int(told):
        return int(told)
    return max(1, len(os.sched_getaffinity(0)) // n_processes)


class ChildEnded(Exception):
    """A child ended before it had answered.

    Attributes:
        status: its exit status; a signal's number below zero.
    """

    def __init__(self, status: int) -> None:
        """Keep the status."""
        super().__init__(f"exit status {status}")
        self.status = status


class Child:
    """One process; requests and answers are pickled through its pipes."""

    def __init__(
        self,
        make: Callable[..., Work],
        *arguments: Any,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            make: gives what answers requests; called in the child when the first request comes.
            arguments: of `make`.
            environment: variables of the child beside those of this process.
        """
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "elmo.child_processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
            start_new_session=True,
        )
        self._first: tuple[Any, ...] | None = (make, arguments)

    def ask(self, request: Any, heard: Callable[[Any], None] = lambda note: None) -> Any:
        """Send a request and wait for the answer; an error there is raised here.

        Args:
            request: anything that can be pickled.
            heard: called with what the child tells before it answers.
        """
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            _send(requests, (self._first, request))
            self._first = None
            while True:
                kind, content = pickle.loads(_receive(answers))
                if kind != NOTE:
                    break
                heard(content)
        except (EOFError, BrokenPipeError):
            raise ChildEnded(self._process.wait()) from None
        if kind == ERROR:
            raise content
        return content

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and let go of its pipes; nobody may be asking it any more."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def serve() -> None:
    """Be a child: answer requests until the parent is gone."""
    arrived: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, arrived), daemon=True).start()
    # What a library may print must not get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work: Work | None = None
    while True:
        try:
            first, request = pickle.loads(arrived.get())
            if first is not None:
                make, arguments = first
                work = make(*arguments)
            assert work is not None
            message = (ANSWER, work(request, lambda note: _send(answers, (NOTE, note))))
        except Exception as error:
            message = (ERROR, portable(error))
        _send(answers, message)


def _listen(requests: BinaryIO, arrived: "SimpleQueue[bytes]") -> None:
    """Take requests; end the process, whatever it does, when there can be no more."""
    try:
        while True:
            arrived.put(_receive(requests))
    except EOFError:
        os._exit(0)


def portable(error: Exception) -> Exception:
    """Give an error that can travel: some are made from other arguments than they keep."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        if isinstance(error, ElmoError):
            return ElmoError(str(error))
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(pipe: Any, message: Any) -> None:
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(LENGTH_BYTES, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: Any) -> bytes:
    length = int.from_bytes(_exactly(pipe, LENGTH_BYTES), "little")
    return _exactly(pipe, length)


def _exactly(pipe: Any, n_bytes: int) -> bytes:
    data: bytes = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data


if __name__ == "__main__":
    serve()
