"""Compiles `native.c` to a shared library, and loads such libraries."""

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from elmo.kernels.native_structs import EXPECTED, LibraryInfo

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-O3", "-shared", "-fPIC", "-Wno-psabi")


def find_compiler() -> list[str] | None:
    """Return the C compiler command (`CC` or cc) with its arguments; None if not found."""
    name, *arguments = shlex.split(os.environ.get("CC") or "cc") or ["cc"]
    path = shutil.which(name)
    return None if path is None else [path, *arguments]


def compile_library(compiler: Sequence[str], flags: Sequence[str], folder: Path) -> Path | None:
    """Compile the library to a new file in a folder and return its path.

    Returns None if the folder is not writable, and raises `OSError` if the compiler failed.
    """
    try:
        number, name = tempfile.mkstemp(dir=folder, prefix=".native-", suffix=".so")
    except OSError:
        return None
    os.close(number)
    path = Path(name)
    try:
        command = [*compiler, *flags, str(SOURCE), "-o", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            message = done.stderr.strip().splitlines()[:1]
            raise OSError(f"{compiler[0]}: {message[0] if message else 'no error message'}")
        path.chmod(0o700)  # the mode of the compiler's file depends on the umask
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


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


def cpu_features() -> bytes:
    """Return a description of this CPU, because different machines can share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features"))}))
