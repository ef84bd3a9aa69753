"""Child processes that handle requests from their parent process.

Parent and child communicate through the standard input and output of the child. Child processes do
not import the calling script and do not receive Ctrl-C. They exit when their parent exits, even if
it is killed while they are busy.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, BinaryIO, Generic, TypeVar

from elmo.errors import ElmoError
from elmo.threads import configured_threads, n_cores

Request = TypeVar("Request")
Note = TypeVar("Note")
Answer = TypeVar("Answer")

# Function of a request and a callback for progress reports to the parent; returns the answer.
Handler = Callable[[Request, Callable[[Note], None]], Answer]

LENGTH_BYTES = 8
NOTE, ANSWER, ERROR = range(3)


def threads_each(n_processes: int) -> int:
    """Return the number of threads per process: an even share of the cores, or $OMP_NUM_THREADS."""
    return configured_threads() or max(1, n_cores() // n_processes)


class ChildEnded(Exception):
    """A child ended before its answer, with an exit status or a negative signal number."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


class Child(Generic[Request, Note, Answer]):
    """A child process that receives pickled requests and returns pickled answers."""

    def __init__(
        self,
        make: Callable[..., Handler[Request, Note, Answer]],
        *arguments: object,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process, with additional environment variables.

        `make(*arguments)` creates the request handler in the child when the first request arrives.
        """
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "elmo.child_processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {}), "PYTHONPATH": path},
            start_new_session=True,
        )
        self._first: tuple[object, ...] | None = (make, arguments)

    def ask(
        self, request: Request, on_progress: Callable[[Note], None] = lambda note: None
    ) -> Answer:
        """Send a request; return the answer of the child, or raise its error here."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            _send(requests, (self._first, request))
            self._first = None
            while True:
                message_type, content = pickle.loads(_receive(answers))
                if message_type != NOTE:
                    break
                on_progress(content)
        except (EOFError, BrokenPipeError):
            raise ChildEnded(self._process.wait()) from None
        if message_type == ERROR:
            raise content
        answer: Answer = content
        return answer

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the process and close its pipes. Must not be called while a request is pending."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def serve() -> None:
    """Run the child process: answer requests until the parent exits."""
    arrived: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, arrived), daemon=True).start()
    # Redirect standard output, so that output of libraries does not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    handler: Handler[object, object, object] | None = None
    message: tuple[int, object]
    while True:
        try:
            first, request = pickle.loads(arrived.get())
            if first is not None:
                make, arguments = first
                handler = make(*arguments)
            assert handler is not None
            message = (ANSWER, handler(request, lambda note: _send(answers, (NOTE, note))))
        except Exception as error:
            message = (ERROR, portable(error))
        _send(answers, message)


def _listen(requests: BinaryIO, arrived: "SimpleQueue[bytes]") -> None:
    """Put incoming requests into a queue, and exit when the parent closes the pipe."""
    try:
        while True:
            arrived.put(_receive(requests))
    except EOFError:
        os._exit(0)


def portable(error: Exception) -> Exception:
    """Return the error itself if it can be pickled, otherwise an equivalent one that can."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        if isinstance(error, ElmoError):
            return ElmoError(str(error))
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(pipe: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(LENGTH_BYTES, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    length = int.from_bytes(_exactly(pipe, LENGTH_BYTES), "little")
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], n_bytes: int) -> bytes:
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data


if __name__ == "__main__":
    serve()
