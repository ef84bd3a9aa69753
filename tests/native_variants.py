"""`native.c` compiled for this CPU and for lesser ones, so that each of its ways is tested."""

import ctypes
import platform
from functools import cache

import pytest

from elmo.kernels import native, native_calls

VARIANTS = {"as it is": ()}
NO_TILES = ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8")
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS |= {
        "no tiles": NO_TILES,
        "no halves": (*NO_TILES, "-mno-avx512bf16"),
        "no wide vectors": ("-march=x86-64",),
    }
    if b" avx2 " in native._processor() and b" fma " in native._processor():
        VARIANTS["vectors of eight"] = ("-march=haswell",)
elif platform.machine().lower() in ("aarch64", "arm64"):
    VARIANTS["no dot products"] = ("-mcpu=cortex-a53",)
ARITHMETICS = ("float32", "bfloat16x3", "bfloat16", "int8")


@cache
def compiled(variant, folder):
    compiler = native._compiler()
    path = folder / f"{variant.replace(' ', '-')}.so"
    flags = (*native.FLAGS, native._tuned(), *VARIANTS[variant])
    assert native._compiled(compiler, flags, path)
    return ctypes.CDLL(str(path))


def use(variant, folder, monkeypatch):
    """Let kernels use a variant; gives the arithmetics it knows."""
    if native._compiler() is None:
        pytest.skip("no C compiler")
    loaded = compiled(variant, folder)
    monkeypatch.setattr(native_calls, "library", lambda: loaded)
    native_calls.can_compute.cache_clear()
    return [one for one in ARITHMETICS if native_calls.can_compute(one)]
