"""`native.c` compiled for this CPU, for lesser ones and for others, so that each way is tested."""

import ctypes
import platform
from functools import cache
from pathlib import Path

import pytest

from elmo.kernels import native_ffi, native_library

VARIANTS = {"as it is": ()}
NO_TILES = ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8")
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS |= {
        "no tiles": NO_TILES,
        "no halves": (*NO_TILES, "-mno-avx512bf16"),
        "no wide vectors": ("-march=x86-64",),
    }
    if b" avx2 " in native_library._processor() and b" fma " in native_library._processor():
        VARIANTS["vectors of eight"] = ("-march=haswell",)
elif platform.machine().lower() in ("aarch64", "arm64"):
    VARIANTS["no dot products"] = ("-mcpu=cortex-a53",)
# What this CPU may lack, in plain C; compilers take long over more than -O1 of it.
EMULATED = Path(__file__).parent / "kernels" / "emulated"
_VECTORS = ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VNNI", "AVX512BF16")
_DOTS = ("-O1", f"-I{EMULATED}", "-U__aarch64__", *(f"-D__{name}__" for name in _VECTORS))
VARIANTS |= {
    "dot products, emulated": (*_DOTS, "-U__AMX_BF16__"),
    "tiles, emulated": (*_DOTS, "-D__AMX_BF16__", "-D__AMX_INT8__"),
}
ARITHMETICS = ("float32", "bfloat16", "int8")


@cache
def compiled(variant, folder):
    compiler = native_library._compiler()
    path = folder / f"{variant.replace(' ', '-')}.so"
    flags = (*native_library.FLAGS, native_library._tuned(), *VARIANTS[variant])
    assert path.exists() or native_library._compiled(compiler, flags, path)
    return ctypes.CDLL(str(path))


def use(variant, folder, monkeypatch):
    """Let kernels use a variant; gives the arithmetics it knows."""
    if native_library._compiler() is None:
        pytest.skip("no C compiler")
    loaded = compiled(variant, folder)
    monkeypatch.setattr(native_ffi, "library", lambda: loaded)
    native_ffi.can_compute.cache_clear()
    return [one for one in ARITHMETICS if native_ffi.can_compute(one)]
