"""Run a command whose Python processes are forked from one process with all imports done.

    python runs/fork_server.py 32 bash -c 'for set in sst5 sick; do
        SETS=$set JOBS=99 bash runs/tasks.sh DATA OUT/$set & done; wait'

A small task model is trained in minutes, and forty processes that import PyTorch at the same time
need half a minute for that alone. Here $PYTHON, in the command and all processes it starts, is a
short script that sends its arguments to this process, which forks.

To keep the machine busy without overloading it, at most 32 seeds (the first argument) are trained
at the same time, and other `elmo task fit` processes wait. On an NVIDIA GPU, MPS lets up to 48
processes compute at the same time (`nvidia-cuda-mps-control -d`); each fit needs one process in
addition to those of its seeds.
"""

import argparse
import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

# Modules imported before the first fork. They must not start threads or initialize CUDA.
MODULES = (
    "elmo.cli",
    "elmo.child_processes",
    "elmo.tasks.training.fit",
    "elmo.tasks.prediction.predict",
    "elmo.train.loop",
)
# Script that replaces Python: sends its arguments to the server and waits for the exit status.
SHIM = """\
#!{python} -SEs
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
files = array.array("i", [0, 1, 2])
server.sendmsg([len(data := json.dumps(request).encode()).to_bytes(8, "little")],
               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
server.sendall(data)
status = server.recv(16)
os._exit(int(status) if status else 1)
"""


@dataclass(frozen=True)
class Request:
    """A Python process to start.

    Attributes:
        connection: Socket to the shim that waits for the exit status.
        files: File descriptors of standard input, output and error.
        arguments: Command line without the Python executable.
        folder: Working directory.
        environment: Environment variables.
    """

    connection: socket.socket
    files: list[int]
    arguments: list[str]
    folder: str
    environment: dict[str, str]

    @property
    def n_slots(self) -> int:
        """Number of seeds it trains at the same time; 0 unless it is `elmo task fit`."""
        if self.arguments[1:4] != ["elmo", "task", "fit"]:
            return 0
        n_seeds, n_parallel = (self._number(flag) for flag in ("--seeds", "--parallel-seeds"))
        return min(n_seeds, n_parallel)

    def _number(self, flag: str) -> int:
        values = [
            value
            for name, value in zip(self.arguments, self.arguments[1:], strict=False)
            if name == flag
        ]
        return int(values[-1]) if values else 1


class Server:
    """Forks the requested processes in order of arrival, as slots become free."""

    def __init__(self, folder: Path, n_slots: int) -> None:
        """Listen on a socket in a folder, and write the shim there.

        Args:
            folder: Existing folder for the socket and the shim.
            n_slots: Number of seeds that are trained at the same time.
        """
        self.shim, self._n_slots = folder / "python", n_slots
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(1024)
        self.shim.write_text(SHIM.format(python=sys.executable, path=str(folder / "socket")))
        self.shim.chmod(0o755)
        self._waiting: list[Request] = []
        self._running: dict[int, Request] = {}

    def serve(self, command: "subprocess.Popen[bytes]") -> int:
        """Fork processes until a command ends, and return its exit status."""
        while command.poll() is None:
            if select.select([self._listener], [], [], 0.05)[0]:
                self._waiting.append(_receive(self._listener.accept()[0]))
            for pid in list(self._running):
                ended_pid, status = os.waitpid(pid, os.WNOHANG)
                if ended_pid:
                    self._reply(self._running.pop(pid), os.waitstatus_to_exitcode(status))
            self._start_waiting()
        return command.returncode

    def _start_waiting(self) -> None:
        """Start the processes that have enough free slots; a fit does not overtake another."""
        is_full = False
        for request in list(self._waiting):
            if request.n_slots:
                n_used = sum(running.n_slots for running in self._running.values())
                # A fit that needs more slots than there are runs alone.
                is_full = is_full or (n_used > 0 and n_used + request.n_slots > self._n_slots)
                if is_full:
                    continue
            self._waiting.remove(request)
            self._start(request)

    def _start(self, request: Request) -> None:
        pid = os.fork()
        if pid == 0:
            self._run_child(request)
        self._running[pid] = request
        for file in request.files:
            os.close(file)

    def _reply(self, request: Request, status: int) -> None:
        with contextlib.suppress(OSError):  # the shim may have been killed
            request.connection.sendall(str(status if status >= 0 else 128 - status).encode())
        request.connection.close()

    def _run_child(self, request: Request) -> NoReturn:
        """Run the requested program in a forked process, and exit."""
        status = 1
        try:
            self._listener.close()
            for other in [*self._waiting, *self._running.values(), request]:
                other.connection.close()
            for number, file in enumerate(request.files):
                os.dup2(file, number)
            for other in [*self._waiting, request]:
                os.closerange(min(other.files), max(other.files) + 1)
            os.setsid()
            os.chdir(request.folder)
            os.environ.clear()
            os.environ.update(request.environment)
            # Processes that it starts with sys.executable are forked, too.
            sys.executable = str(self.shim)
            status = _run(request.arguments)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            os._exit(status)


def _receive(connection: socket.socket) -> Request:
    data, control, _, _ = connection.recvmsg(8, socket.CMSG_LEN(3 * 4))
    files = array.array("i")
    files.frombytes(control[0][2])
    n_left, parts = int.from_bytes(data, "little"), []
    while n_left:
        parts.append(connection.recv(n_left))
        n_left -= len(parts[-1])
    message = json.loads(b"".join(parts))
    return Request(
        connection, list(files), message["arguments"], message["folder"], message["environment"]
    )


def _run(arguments: list[str]) -> int:
    """Run a script or `-m MODULE` like `python ARGUMENTS`, and return the exit status."""
    arguments = [argument for argument in arguments[:1] if argument != "-P"] + arguments[1:]
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Import the modules, then run the command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("slots", type=int, help="Number of seeds trained at the same time.")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="Command with its arguments.")
    args = parser.parse_args()
    for name in MODULES:
        importlib.import_module(name)
    # The garbage collector must not touch these objects again: their memory stays shared.
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), args.slots)
        environment = {"PYTHON": str(server.shim), "OMP_NUM_THREADS": "1"}
        command = subprocess.Popen(args.command, env={**os.environ, **environment})
        sys.exit(server.serve(command))


if __name__ == "__main__":
    main()
