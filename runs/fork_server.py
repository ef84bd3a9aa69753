"""Runs a command whose Pythons are forks of one that has imported everything.

    python runs/fork_server.py 32 bash -c 'for set in sst5 sick; do
        SETS=$set JOBS=99 bash runs/tasks.sh DATA OUT/$set & done; wait'

A run of a small model is over in minutes, and forty processes that import PyTorch at once are busy
with that for half of one. Here $PYTHON of the command, and of all it starts, is a few lines that
pass their words on to this process, which forks. So that a machine is full and not overfull, 32
seeds learn at the same time, here; further fits wait for their turn. On a GPU of NVIDIA's its MPS
lets processes compute at the same time (`nvidia-cuda-mps-control -d`), 48 of them: a fit is one
beside its seeds.
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

# What is imported before the first fork; nothing of it may start threads or a GPU.
MODULES = (
    "elmo.cli",
    "elmo.child_processes",
    "elmo.tasks.fit",
    "elmo.tasks.predict",
    "elmo.train.loop",
)
# In the place of Python: passes on what it is given and waits for the exit status.
SHIM = """\
#!{python} -SEs
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
asked = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
files = array.array("i", [0, 1, 2])
server.sendmsg([len(data := json.dumps(asked).encode()).to_bytes(8, "little")],
               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
server.sendall(data)
status = server.recv(16)
os._exit(int(status) if status else 1)
"""


@dataclass(frozen=True)
class Request:
    """What a process wants to be run as.

    Attributes:
        line: to the process that waits.
        files: its standard input, output and error.
        words: its command line, without Python.
        folder: where it is.
        environment: its own.
    """

    line: socket.socket
    files: list[int]
    words: list[str]
    folder: str
    environment: dict[str, str]

    @property
    def places(self) -> int:
        """How many seeds learn in it at the same time; 0 where it is no fit."""
        if self.words[1:4] != ["elmo", "task", "fit"]:
            return 0
        seeds, side_by_side = (self._number(flag) for flag in ("--seeds", "--parallel-seeds"))
        return min(seeds, side_by_side)

    def _number(self, flag: str) -> int:
        found = [
            value for name, value in zip(self.words, self.words[1:], strict=False) if name == flag
        ]
        return int(found[-1]) if found else 1


class Server:
    """Forks, in the order of their asking, as many as have a place."""

    def __init__(self, folder: Path, places: int) -> None:
        """Listen in a folder, where the shim lies too."""
        self.shim, self._places = folder / "python", places
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "line"))
        self._listener.listen(1024)
        self.shim.write_text(SHIM.format(python=sys.executable, path=str(folder / "line")))
        self.shim.chmod(0o755)
        self._waiting: list[Request] = []
        self._running: dict[int, Request] = {}

    def serve(self, command: "subprocess.Popen[bytes]") -> int:
        """Fork until a command is over; gives its exit status."""
        while command.poll() is None:
            if select.select([self._listener], [], [], 0.05)[0]:
                self._waiting.append(_received(self._listener.accept()[0]))
            for pid in list(self._running):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    self._answer(self._running.pop(pid), os.waitstatus_to_exitcode(status))
            self._start_waiting()
        return command.returncode

    def _start_waiting(self) -> None:
        """Start what has a place; a fit does not overtake another."""
        is_full = False
        for request in list(self._waiting):
            if request.places:
                used = sum(one.places for one in self._running.values())
                # One that needs more places than there are has all of them.
                is_full = is_full or (used > 0 and used + request.places > self._places)
                if is_full:
                    continue
            self._waiting.remove(request)
            self._start(request)

    def _start(self, request: Request) -> None:
        pid = os.fork()
        if pid == 0:
            self._become(request)
        self._running[pid] = request
        for file in request.files:
            os.close(file)

    def _answer(self, request: Request, status: int) -> None:
        with contextlib.suppress(OSError):  # it may have been killed meanwhile
            request.line.sendall(str(status if status >= 0 else 128 - status).encode())
        request.line.close()

    def _become(self, request: Request) -> NoReturn:
        """Be the process that was asked for, and end."""
        status = 1
        try:
            self._listener.close()
            for other in [*self._waiting, *self._running.values(), request]:
                other.line.close()
            for number, file in enumerate(request.files):
                os.dup2(file, number)
            for other in [*self._waiting, request]:
                os.closerange(min(other.files), max(other.files) + 1)
            os.setsid()
            os.chdir(request.folder)
            os.environ.clear()
            os.environ.update(request.environment)
            # Its own children come here too.
            sys.executable = str(self.shim)
            status = _run(request.words)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            os._exit(status)


def _received(line: socket.socket) -> Request:
    data, control, _, _ = line.recvmsg(8, socket.CMSG_LEN(3 * 4))
    files = array.array("i")
    files.frombytes(control[0][2])
    left, parts = int.from_bytes(data, "little"), []
    while left:
        parts.append(line.recv(left))
        left -= len(parts[-1])
    asked = json.loads(b"".join(parts))
    return Request(line, list(files), asked["words"], asked["folder"], asked["environment"])


def _run(words: list[str]) -> int:
    """Do what `python WORDS` does, for a script or a module; gives the exit status."""
    words = [word for word in words[:1] if word != "-P"] + words[1:]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Import, then run the command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("places", type=int, help="seeds that learn at the same time")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    for name in MODULES:
        importlib.import_module(name)
    # What is there is never looked through again, and so stays shared.
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), given.places)
        environment = {"PYTHON": str(server.shim), "OMP_NUM_THREADS": "1"}
        command = subprocess.Popen(given.command, env={**os.environ, **environment})
        sys.exit(server.serve(command))


if __name__ == "__main__":
    main()
