"""Float32 that means float32: reduced-precision matrix products switched off for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute float32 products in full and the same way each time, whatever the process has set."""
    switches = _switches()
    before = [getattr(place, name) for place, name, _ in switches]
    try:
        for place, name, value in switches:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(switches, before, strict=True):
            setattr(place, name, value)
