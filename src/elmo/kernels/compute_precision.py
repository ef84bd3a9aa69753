"""Context manager that sets the compute precision of CPU kernels.

The dtype of the weights does not change, so the next call can reuse their packed copies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Precision = Literal["float32", "bfloat16", "int8"]

_precision: ContextVar[Precision] = ContextVar("precision", default="float32")


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Make CPU kernels called from this thread compute in the given precision, if supported."""
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def current_precision() -> Precision:
    """Return the precision set by `computing_in`, or float32 by default."""
    return _precision.get()
