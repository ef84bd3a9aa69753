"""Variants of `native.c` for testing: for this CPU, with fewer and with emulated instructions."""

import platform
from functools import cache
from pathlib import Path

import pytest

from elmo.kernels import native_compiler, native_ffi, native_library, weight_snapshot

VARIANTS = {"native": ()}
NO_AMX = ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8")
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS |= {
        "no AMX": NO_AMX,
        "no AMX, no bfloat16": (*NO_AMX, "-mno-avx512bf16"),
        "SSE only": ("-march=x86-64",),
    }
    if all(name in native_compiler.cpu_features() for name in (b" avx2 ", b" fma ")):
        VARIANTS["AVX2"] = ("-march=haswell",)
elif platform.machine().lower() in ("aarch64", "arm64"):
    VARIANTS["no dot products"] = ("-mcpu=cortex-a53",)
# Instructions that this CPU may lack, emulated in C. Higher levels than -O1 compile too slowly.
EMULATED = Path(__file__).parent / "kernels" / "emulated"
_FEATURES = ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VNNI", "AVX512BF16")
_DOTS = ("-O1", f"-I{EMULATED}", "-U__aarch64__", *(f"-D__{name}__" for name in _FEATURES))
VARIANTS |= {
    "emulated dot products": (*_DOTS, "-U__AMX_BF16__"),
    "emulated AMX": (*_DOTS, "-D__AMX_BF16__", "-D__AMX_INT8__"),
}
PRECISIONS = ("float32", "bfloat16", "int8", "int8x3")
# The precisions that a library must support, by what it reports about the compiler's instructions.
REQUIRED = {
    "AMX": {"float32", "bfloat16", "int8", "int8x3"},
    "AMX (not permitted)": {"float32"},
    "AVX512-BF16": {"float32", "bfloat16", "int8"},
    "AVX512-VNNI": {"float32", "int8"},
    "ARM dot products": {"float32", "int8"},
    "float32 vectors": {"float32"},
}


@cache
def compiled(variant, folder):
    compiler = native_compiler.find_compiler()
    path = folder / f"{variant.replace(' ', '-')}.so"
    flags = (*native_compiler.FLAGS, native_library._cpu_flag(), *VARIANTS[variant])
    if not path.exists():
        native_compiler.compile_library(compiler, flags, path.parent).replace(path)
    return native_compiler.load_library(path)


def use(variant, folder, monkeypatch):
    """Load a variant of the native kernels and return the precisions that it supports."""
    if native_compiler.find_compiler() is None:
        pytest.skip("no C compiler")
    loaded = compiled(variant, folder)
    monkeypatch.setattr(native_ffi, "library", lambda: loaded)
    monkeypatch.setattr(weight_snapshot, "library", lambda: loaded)
    native_ffi.can_compute.cache_clear()
    return [precision for precision in PRECISIONS if native_ffi.can_compute(precision)]
