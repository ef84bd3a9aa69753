"""Start the server of an environment as in a container, query it and stop it.

    python3 docker/check_server.py FOLDER

The server has no compiler and no home folder. As root on Linux it also runs as another user on a
read-only file system, as with `docker run --read-only`; otherwise the check says that it did not.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

USER = "10001"
SECONDS = 120.0
READ_ONLY = (
    "mount --make-rprivate / && mount -o remount,bind,ro / && exec "
    f'setpriv --reuid {USER} --regid {USER} --clear-groups "$@"'
)
REQUEST = {"sentences": ["He sat on the bank."]}


def isolated(command: list[str]) -> list[str]:
    """Return a command that runs another one as a user without rights on read-only files."""
    has_tools = all(shutil.which(name) for name in ("unshare", "setpriv", "mount"))
    if sys.platform != "linux" or os.getuid() != 0 or not has_tools:
        print("check: not root on Linux, so the file system is not read-only")
        return command
    print(f"check: read-only file system, user {USER}")
    return ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *command]


def fetch(url: str, body: object = None) -> bytes:
    """Return the answer to a GET request or, with a body, to a POST request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds, and exit if it does not in time or the process ends."""
    end = time.monotonic() + SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            sys.exit(f"check: the server did not start\n{process.stderr.read()}")  # type: ignore[union-attr]
        time.sleep(0.1)


def is_ready(address: str) -> bool:
    """Whether the server has loaded its model."""
    try:
        return bool(json.loads(fetch(f"{address}/ready")) == {"status": "ready"})
    except urllib.error.URLError:
        return False


def main() -> None:
    """Check the environment in the folder given on the command line."""
    folder = Path(sys.argv[1]).resolve()
    environment = {
        "PATH": f"{folder}/bin",
        "ELMO_KERNELS": f"{folder}/kernels",
        "ELMO_HOME": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    size = sum(path.lstat().st_size for path in folder.rglob("*"))
    print(f"check: {size / 1e6:,.0f} MB in {folder}")
    program = "from elmo.kernels.native_library import library; print(library().instructions())"
    kernels = subprocess.run(
        [f"{folder}/bin/python", "-c", program], env=environment, capture_output=True, check=True
    )
    print(f"check: kernels {kernels.stdout.decode().strip()}")
    begin = time.monotonic()
    server = subprocess.Popen(
        isolated([f"{folder}/bin/elmo", "serve", "--port", "0"]),
        env={**environment, "PATH": f"{folder}/bin:{os.environ['PATH']}", "CC": "no-compiler"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert server.stderr is not None
    first = server.stderr.readline()
    found = re.search(r"http://\S+", first)
    if found is None:
        sys.exit(f"check: the server did not start\n{first}{server.stderr.read()}")
    address = found[0]
    wait_for(lambda: is_ready(address), server)
    print(f"check: ready after {time.monotonic() - begin:.1f} s")
    answer = json.loads(fetch(f"{address}/embed", REQUEST))
    (sentence,) = answer["sentences"]
    assert sentence["words"] == ["He", "sat", "on", "the", "bank", "."], sentence["words"]
    assert len(sentence["vectors"]) == 6, len(sentence["vectors"])
    assert b"elmo_" in fetch(f"{address}/metrics")
    server.send_signal(signal.SIGTERM)
    code = server.wait(60)
    if code:
        sys.exit(f"check: exit status {code} after SIGTERM\n{server.stderr.read()}")
    print("check: vectors, metrics and shutdown are correct")


if __name__ == "__main__":
    main()
