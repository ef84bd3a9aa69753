"""Compiles `native.c` on the user's machine, and loads the library from a cache folder.

Without a C compiler, the reference implementation is used instead.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock

from elmo.cache_folder import cache_folder
from elmo.kernels.native_structs import EXPECTED, LibraryInfo

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-O3", "-shared", "-fPIC", "-Wno-psabi")
SWITCH = "ELMO_NATIVE"
"""Environment variable that disables the library if set to 0."""


_lock = Lock()


def library() -> ctypes.CDLL | None:
    """Return the library, compiling it if necessary; None if it is not available."""
    with _lock:  # so that concurrent first calls do not compile it twice
        return _library()


@cache
def _library() -> ctypes.CDLL | None:
    compiler = _compiler()
    if os.environ.get(SWITCH) == "0" or compiler is None or sys.platform == "win32":
        return None
    flags = (*FLAGS, _cpu_flag())
    try:
        path = kernel_folder() / f"native-{_fingerprint(compiler, flags)}.so"
        return _load_cached(compiler, flags, path) or _load_uncached(compiler, flags)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning(
            "The native kernels could not be compiled (%s). Using the slower PyTorch kernels.",
            error,
        )
    return None


def kernel_folder() -> Path:
    """Return the folder for compiled libraries, which nobody else may write to."""
    return cache_folder() / "kernels"


def _load_cached(compiler: Sequence[str], flags: Sequence[str], path: Path) -> ctypes.CDLL | None:
    """Load the cached library, compiling it if needed; None if the cache folder is not usable."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for checked in (path.parent, path):
        if not _is_private(checked):
            logger.warning(
                "%s is not used, because it belongs to another user or others can write to it. "
                "The native kernels are compiled in each process instead. Delete it, or run: "
                "chmod go-w '%s'",
                checked,
                checked,
            )
            return None
    with suppress(OSError):
        return load_library(path)
    # The file is missing or damaged.
    return load_library(path) if _compile(compiler, flags, path) else None


def _is_private(path: Path) -> bool:
    """Whether a path, if it exists, belongs to this user and nobody else can write to it."""
    try:
        status = path.lstat()
    except OSError:
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library and check that its functions and structures are those of this package.

    Raises `OSError` if the file is not a library, or one of another version.
    """
    loaded = ctypes.CDLL(str(path))
    info = LibraryInfo()
    try:
        loaded.get_library_info(ctypes.byref(info))
        loaded.checksum.restype = ctypes.c_uint64
        loaded.instructions.restype = ctypes.c_char_p
    except AttributeError as error:
        raise OSError(f"{path} lacks a function: {error}") from None
    if info.as_tuple() != EXPECTED:
        raise OSError(
            f"{path} has ABI version and structure sizes {info.as_tuple()}, expected {EXPECTED}"
        )
    return loaded


def _load_uncached(compiler: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    """Compile the library to a temporary folder, load it and delete the folder."""
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        path = Path(folder) / "native.so"
        if not _compile(compiler, flags, path):
            raise OSError(f"{folder} is not writable")
        return load_library(path)


def _compiler() -> list[str] | None:
    """Return the C compiler command (`CC` or cc) with its arguments; None if not found."""
    name, *arguments = shlex.split(os.environ.get("CC") or "cc") or ["cc"]
    path = shutil.which(name)
    return None if path is None else [path, *arguments]


def _cpu_flag() -> str:
    """Return the compiler flag that enables all instruction sets of this CPU."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return "-march=native" if is_x86 else "-mcpu=native"


def _fingerprint(compiler: Sequence[str], flags: Sequence[str]) -> str:
    """Return a hash of the source, compiler flags, compiler version and CPU features."""
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=True, timeout=60
    ).stdout
    parts = [SOURCE.read_bytes(), " ".join([*compiler, *flags]).encode(), version, _cpu_features()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _cpu_features() -> bytes:
    """Return a description of this CPU, because different machines can share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features"))}))


def _compile(compiler: Sequence[str], flags: Sequence[str], path: Path) -> bool:
    """Compile the library to a temporary file and move it to its path atomically.

    Returns False if the folder is not writable, and raises `OSError` if the compiler failed.
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
            message = done.stderr.strip().splitlines()[:1]
            raise OSError(f"{compiler[0]}: {message[0] if message else 'no error message'}")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True
