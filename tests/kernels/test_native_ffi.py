"""Tests of scratch memory, and of the precisions that each compiled variant must support."""

import threading

import pytest
from native_variants import PRECISIONS, REQUIRED, VARIANTS, compiled, use

from elmo.kernels import native_compiler, native_ffi
from elmo.kernels.native_ffi import scratch
from elmo.kernels.native_library import library

# What the compiler may use in variants that do not depend on this CPU.
INSTRUCTIONS = {
    "no dot products": "float32 vectors",
    "SSE only": "float32 vectors",
    "AVX2": "float32 vectors",
    "emulated dot products": "AVX512-BF16",
    "emulated AMX": "AMX",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_supports_exactly_the_required_precisions(variant, native_folder, monkeypatch):
    supported = use(variant, native_folder, monkeypatch)
    instructions = compiled(variant, native_folder).instructions().decode()
    native_ffi.can_compute.cache_clear()
    assert instructions == INSTRUCTIONS.get(variant, instructions)
    assert set(supported) == REQUIRED[instructions]


def test_library_of_this_machine_supports_exactly_the_required_precisions():
    if native_compiler.find_compiler() is None:
        pytest.skip("no C compiler")
    loaded = library()
    assert loaded is not None  # otherwise all tests of native kernels would be skipped
    native_ffi.can_compute.cache_clear()
    supported = {precision for precision in PRECISIONS if native_ffi.can_compute(precision)}
    assert supported == REQUIRED[loaded.instructions().decode()]


def test_scratch_memory_is_aligned_and_reused_per_thread():
    first = scratch("test", 100)
    assert first % native_ffi.CACHE_LINE == 0
    assert scratch("test", 50) == first
    other_addresses = []
    thread = threading.Thread(target=lambda: other_addresses.append(scratch("test", 100)))
    thread.start()
    thread.join()
    assert other_addresses[0] != first
