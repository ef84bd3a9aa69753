"""An arithmetic other than that of the weights, asked for around a call: a CPU's kernels look here.

Weights stay what they are, so that what was packed of them serves the next call too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Precision = Literal["float32", "bfloat16", "int8"]

_wanted: ContextVar[Precision] = ContextVar("arithmetic", default="float32")


@contextmanager
def computing_in(arithmetic: Precision) -> Iterator[None]:
    """Let kernels multiply in this arithmetic, as far as they can; in this thread alone."""
    token = _wanted.set(arithmetic)
    try:
        yield
    finally:
        _wanted.reset(token)


def wanted() -> Precision:
    """Give the arithmetic asked for; float32 where nothing is."""
    return _wanted.get()
