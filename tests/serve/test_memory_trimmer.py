"""Tests of the return of freed memory."""

import gc
import sys

import pytest

from elmo.serve import memory_trimmer
from elmo.serve.memory_trimmer import TRIM_BYTES, MemoryTrimmer


def test_trim_is_due_after_much_was_freed_and_the_server_is_idle(monkeypatch):
    monkeypatch.setattr(memory_trimmer, "_malloc_trim", lambda: lambda n_bytes: 1)
    trimmer = MemoryTrimmer()
    assert not trimmer.is_due(TRIM_BYTES - 1, is_idle=True)
    assert not trimmer.is_due(TRIM_BYTES, is_idle=False)
    assert trimmer.is_due(TRIM_BYTES, is_idle=True)
    assert not trimmer.is_due(TRIM_BYTES, is_idle=True)
    assert trimmer.is_due(2 * TRIM_BYTES, is_idle=True)


def test_busy_server_trims_after_a_while(monkeypatch):
    monkeypatch.setattr(memory_trimmer, "_malloc_trim", lambda: lambda n_bytes: 1)
    trimmer = MemoryTrimmer()
    monkeypatch.setattr(memory_trimmer, "BUSY_SECONDS", 0)
    assert trimmer.is_due(TRIM_BYTES, is_idle=False)


def test_nothing_is_due_without_the_function_of_glibc(monkeypatch):
    monkeypatch.setattr(memory_trimmer.ctypes, "CDLL", lambda name: object())
    trimmer = MemoryTrimmer()
    assert not trimmer.is_due(10 * TRIM_BYTES, is_idle=True)
    trimmer.trim()


def resident_megabytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) // 256


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_trim_returns_memory_between_small_blocks():
    trimmer = MemoryTrimmer()
    if trimmer._trim is None:
        pytest.skip("this C library has no malloc_trim")
    # Blocks of this size are never mapped on their own.
    large, small = [], []
    for _ in range(2000):
        large.append(bytearray(100_000))
        small.append(bytearray(1000))
    before = resident_megabytes()
    large.clear()
    gc.collect()
    trimmer.trim()
    assert resident_megabytes() < before - 100
    assert len(small) == 2000
