"""Loads the native library, which is compiled on the user's machine and kept in a cache folder.

Libraries that were compiled in advance are loaded from the folder in ELMO_KERNELS. Without them and
without a C compiler, the reference implementation is used instead.
"""

import ctypes
import hashlib
import logging
import os
import platform
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
from elmo.kernels import native_compiler
from elmo.kernels.native_compiler import compile_library, cpu_features, find_compiler, load_library
from elmo.kernels.prebuilt_libraries import FOLDER, load_prebuilt

logger = logging.getLogger(__name__)

SWITCH = "ELMO_NATIVE"
"""Environment variable that disables the library if set to 0."""
FALLBACK = "The native kernels are compiled in each process instead."


_lock = Lock()


def library() -> ctypes.CDLL | None:
    """Return the library, compiling it if necessary; None if it is not available."""
    with _lock:  # so that concurrent first calls do not compile it twice
        return _library()


@cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get(SWITCH) == "0" or sys.platform == "win32":
        return None
    prebuilt = os.environ.get(FOLDER)
    if prebuilt and (loaded := load_prebuilt(Path(prebuilt))) is not None:
        return loaded
    compiler = find_compiler()
    if compiler is None:
        return None
    flags = (*native_compiler.FLAGS, _cpu_flag())
    try:
        path = kernel_folder() / f"native-{_fingerprint(compiler, flags)}.so"
        return _load_cached(compiler, flags, path) or _load_uncached(compiler, flags)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning(
            "The native kernels could not be compiled or loaded (%s). Using the slower PyTorch "
            "kernels.",
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
    problem = (
        _folder_problem(path.parent.parent)
        or _private_problem(path.parent)
        or _private_problem(path)
    )
    if problem:
        logger.warning(problem)
        return None
    with suppress(OSError):
        return load_library(path)
    # The file is missing, damaged or of another version. The new one is loaded before it is
    # renamed: the dynamic loader would return the old library for a path that it loaded before.
    compiled = compile_library(compiler, flags, path.parent)
    if compiled is None:
        return None
    try:
        loaded = load_library(compiled)
        compiled.replace(path)
    finally:
        compiled.unlink(missing_ok=True)
    return loaded


def _folder_problem(folder: Path) -> str | None:
    """Return why another user could replace the content of the cache folder; None if nobody can.

    The folder may belong to the administrator, and its group is trusted: the models in it are, too.
    """
    try:
        status = folder.stat()
    except OSError:
        return None
    if status.st_uid not in (os.getuid(), 0):
        return (
            f"{folder} is not used for compiled kernels, because it belongs to another user. "
            f"{FALLBACK} Set ELMO_HOME to a folder of your own."
        )
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return (
            f"{folder} is not used for compiled kernels, because every user can write to it. "
            f"{FALLBACK} Run: chmod o-w '{folder}'"
        )
    return None


def _private_problem(path: Path) -> str | None:
    """Return why a folder or file is not private to this user; None if it is, or does not exist."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return (
            f"{path} is not used, because it is a symbolic link. {FALLBACK} Delete the link; the "
            "cache folder (ELMO_HOME) can be one."
        )
    if status.st_uid != os.getuid():
        return f"{path} is not used, because it belongs to another user. {FALLBACK} Delete it."
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = f"{path} is not used, because others can write to it."
        return f"{reason} {FALLBACK} Run: chmod go-w '{path}'"
    return None


def _load_uncached(compiler: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    """Compile the library to a temporary folder, load it and delete the folder."""
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        compiled = compile_library(compiler, flags, Path(folder))
        if compiled is None:
            raise OSError(f"{folder} is not writable")
        return load_library(compiled)


def _cpu_flag() -> str:
    """Return the compiler flag that enables all instruction sets of this CPU."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return "-march=native" if is_x86 else "-mcpu=native"


def _fingerprint(compiler: Sequence[str], flags: Sequence[str]) -> str:
    """Return a hash of the source, compiler flags, compiler version and CPU features."""
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, check=True, timeout=60
    ).stdout
    parts = [
        native_compiler.SOURCE.read_bytes(),
        " ".join([*compiler, *flags]).encode(),
        version,
        cpu_features(),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
