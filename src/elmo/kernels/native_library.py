"""`native.c` as a library: compiled once on the machine it runs on, then found in the cache folder.

Where there is no C compiler there is no library, and the plain kernels compute the same.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-O3", "-shared", "-fPIC", "-Wno-psabi")
SWITCH = "ELMO_NATIVE"
"""Variable of the environment that, set to 0, keeps the library off."""


_lock = Lock()


def library() -> ctypes.CDLL | None:
    """Give the library, compiled if need be; None where it cannot be had."""
    with _lock:  # lest threads that come first at the same time compile it twice
        return _library()


@cache
def _library() -> ctypes.CDLL | None:
    compiler = _compiler()
    if os.environ.get(SWITCH) == "0" or compiler is None or sys.platform == "win32":
        return None
    flags = (*FLAGS, _tuned())
    try:
        name = f"native-{_fingerprint(compiler, flags)}.so"
        return _kept(compiler, flags, cache_folder() / name) or _made(compiler, flags)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("the native kernels could not be built (%s): the plain ones are used", error)
    return None


def _kept(compiler: Sequence[str], flags: Sequence[str], path: Path) -> ctypes.CDLL | None:
    """Give the library of the cache folder; None where it cannot be written there."""
    with suppress(OSError):
        return ctypes.CDLL(str(path))
    # Not there yet, or damaged.
    return ctypes.CDLL(str(path)) if _compiled(compiler, flags, path) else None


def _made(compiler: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    """Compile the library for this process alone; once loaded its file is not needed."""
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        path = Path(folder) / "native.so"
        if not _compiled(compiler, flags, path):
            raise OSError(f"nothing can be written to {folder}")
        return ctypes.CDLL(str(path))


def cache_folder() -> Path:
    """Give the folder of what is computed once for a user and a machine."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "elmo-torch"


def _compiler() -> list[str] | None:
    """Give the command of the compiler, which `CC` may name with arguments; None for none."""
    name, *arguments = shlex.split(os.environ.get("CC") or "cc") or ["cc"]
    found = shutil.which(name)
    return None if found is None else [found, *arguments]


def _tuned() -> str:
    """Give the flag for everything that this CPU has."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return "-march=native" if is_x86 else "-mcpu=native"


def _fingerprint(compiler: Sequence[str], flags: Sequence[str]) -> str:
    """Name what decides the library: source, flags, compiler, and the CPU it is tuned for."""
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=True, timeout=60
    ).stdout
    parts = [SOURCE.read_bytes(), " ".join([*compiler, *flags]).encode(), version, _processor()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    """Tell this CPU from others that might share the cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features"))}))


def _compiled(compiler: Sequence[str], flags: Sequence[str], path: Path) -> bool:
    """Compile beside the final name and move, so that nobody loads half a library.

    False where nothing can be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.touch()
    except OSError:
        return False
    try:
        command = [*compiler, *flags, str(SOURCE), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[:1]
            raise OSError(f"{compiler[0]}: {reason[0] if reason else 'no reason given'}")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True
