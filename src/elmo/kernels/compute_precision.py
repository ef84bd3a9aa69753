"""The precision in which CPU kernels compute, set with a context manager around a call.

The weights keep their dtype, so that their packed copies can be reused by the next call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Precision = Literal["float32", "bfloat16", "int8"]

_precision: ContextVar[Precision] = ContextVar("precision", default="float32")


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Let CPU kernels of this thread compute in a precision if they support it."""
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def current_precision() -> Precision:
    """Return the precision set by `computing_in`; float32 if none is set."""
    return _precision.get()
