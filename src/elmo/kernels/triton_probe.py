"""A minimal Triton kernel to test whether Triton works on a device."""

import triton
import triton.language as tl


@triton.jit
def increment(number):
    """Add one to a number."""
    tl.store(number, tl.load(number) + 1)
