"""The smallest kernel there is: whether it runs tells whether others will."""

import triton
import triton.language as tl


@triton.jit
def increase(number):
    """Add one to a number."""
    tl.store(number, tl.load(number) + 1)
