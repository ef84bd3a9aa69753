"""Float32 that means float32: reduced-precision matrix products switched off for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch


def _switches() -> list[tuple[Any, str, Any]]:
    """List (where, attribute, wanted value) for this version of PyTorch."""
    backends: Any = torch.backends
    switches: list[tuple[Any, str, Any]] = [
        # An algorithm picked by a timing race may differ from run to run.
        (backends.cudnn, "benchmark", False),
        (backends.cudnn, "deterministic", True),
    ]
    if hasattr(backends.cudnn, "conv"):
        places = (
            backends.cuda.matmul,
            backends.cudnn.conv,
            backends.cudnn.rnn,
            backends.mkldnn.matmul,
            backends.mkldnn.conv,
        )
        return switches + [(place, "fp32_precision", "ieee") for place in places]
    return [
        *switches,
        (backends.cuda.matmul, "allow_tf32", False),
        (backends.cudnn, "allow_tf32", False),
    ]


_lock = Lock()
# Threads that are inside, and what the first of them found.
_inside = 0
_before: list[Any] = []


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute float32 products in full and the same way each time, whatever the process has set.

    The switches are the process's: of several threads the first sets them, the last puts them back.
    """
    global _inside, _before
    switches = _switches()
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = [getattr(place, name) for place, name, _ in switches]
            for place, name, value in switches:
                setattr(place, name, value)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                for (place, name, _), value in zip(switches, _before, strict=True):
                    setattr(place, name, value)
