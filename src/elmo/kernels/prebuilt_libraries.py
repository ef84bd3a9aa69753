"""Compiles the native library for several CPUs in advance, for machines without a C compiler.

    python -m elmo.kernels.prebuilt_libraries FOLDER

A container image is built on one CPU and runs on others, and has no compiler. With the environment
variable ELMO_KERNELS set to the folder, the best library for the CPU is loaded from it.
"""

import ctypes
import hashlib
import logging
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from elmo.kernels import native_compiler
from elmo.kernels.native_compiler import compile_library, cpu_features, find_compiler, load_library

logger = logging.getLogger(__name__)

FOLDER = "ELMO_KERNELS"
"""Environment variable with the folder of libraries that were compiled in advance."""


@dataclass(frozen=True)
class Target:
    """A kind of CPU.

    Attributes:
        name: Part of the file name.
        flags: Compiler flags.
        features: What a CPU must support, as named in /proc/cpuinfo.
    """

    name: str
    flags: tuple[str, ...]
    features: frozenset[bytes]


def _targets(*rows: tuple[str, str, str]) -> tuple[Target, ...]:
    return tuple(
        Target(name, tuple(flags.split()), frozenset(features.encode().split()))
        for name, flags, features in rows
    )


_V3 = "avx avx2 bmi1 bmi2 f16c fma abm movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_VNNI = "-march=x86-64-v4 -mavx512vnni"
_AMX = "-mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16"

# By machine type, the fastest first.
TARGETS: dict[str, tuple[Target, ...]] = {
    "x86_64": _targets(
        ("amx", f"{_VNNI} {_AMX}", f"{_V4} avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16"),
        ("avx512-bf16", f"{_VNNI} -mavx512bf16", f"{_V4} avx512_vnni avx512_bf16"),
        ("avx512-vnni", _VNNI, f"{_V4} avx512_vnni"),
        ("avx2", "-march=x86-64-v3", _V3),
        ("sse2", "-march=x86-64", ""),
    ),
    "aarch64": _targets(
        ("dot", "-march=armv8.2-a+dotprod", "asimd asimddp atomics"),
        ("neon", "-march=armv8-a", "asimd"),
    ),
}


def load_prebuilt(folder: Path) -> ctypes.CDLL | None:
    """Load the best library of a folder for this CPU; None if there is none."""
    features = frozenset(cpu_features().replace(b":", b" ").split())
    for target in TARGETS.get(platform.machine(), ()):
        path = folder / _file_name(target)
        if target.features <= features and path.exists():
            try:
                return load_library(path)
            except OSError as error:
                logger.warning("%s could not be loaded (%s).", path, error)
    logger.warning(
        "%s=%s has no native kernels of this version for this CPU. Create them with: python -m "
        "elmo.kernels.prebuilt_libraries '%s'",
        FOLDER,
        folder,
        folder,
    )
    return None


def compile_all(folder: Path) -> list[Path]:
    """Compile the library for all kinds of CPUs of this machine type, and return the files.

    Raises `OSError` if there is no compiler, or if it failed.
    """
    compiler, machine = find_compiler(), platform.machine()
    if compiler is None:
        raise OSError("There is no C compiler. Install gcc or clang.")
    if machine not in TARGETS:
        raise OSError(f"Machine type {machine} is not supported. Supported: {', '.join(TARGETS)}.")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for target in TARGETS[machine]:
        compiled = compile_library(compiler, (*native_compiler.FLAGS, *target.flags), folder)
        if compiled is None:
            raise OSError(f"{folder} is not writable.")
        compiled.chmod(0o755)  # other users run the program
        paths.append(compiled.replace(folder / _file_name(target)))
    return paths


def _file_name(target: Target) -> str:
    """Return the file name of a library, which depends on the source code."""
    digest = hashlib.sha256(native_compiler.SOURCE.read_bytes()).hexdigest()[:12]
    return f"native-{digest}-{target.name}.so"


def main() -> None:
    """Compile all libraries into the folder given on the command line."""
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m elmo.kernels.prebuilt_libraries FOLDER")
    try:
        paths = compile_all(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(str(error))
    sys.stdout.writelines(f"{path}\n" for path in paths)


if __name__ == "__main__":
    main()
