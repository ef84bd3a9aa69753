"""Minimal Triton kernel that tests whether Triton works on a device."""

import triton
import triton.language as tl


@triton.jit
def increment(number):
    """Increment a number in device memory."""
    tl.store(number, tl.load(number) + 1)
