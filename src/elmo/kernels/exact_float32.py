"""Context manager that disables reduced-precision float32 products such as TF32."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch


def _settings() -> list[tuple[Any, str, Any]]:
    """Return (object, attribute, value) for each precision setting of the installed PyTorch."""
    backends: Any = torch.backends
    settings: list[tuple[Any, str, Any]] = [
        # With benchmarking the chosen algorithm may differ from run to run.
        (backends.cudnn, "benchmark", False),
        (backends.cudnn, "deterministic", True),
    ]
    if hasattr(backends.cudnn, "conv"):
        operations = (
            backends.cuda.matmul,
            backends.cudnn.conv,
            backends.cudnn.rnn,
            backends.mkldnn.matmul,
            backends.mkldnn.conv,
        )
        return settings + [(operation, "fp32_precision", "ieee") for operation in operations]
    return [
        *settings,
        (backends.cuda.matmul, "allow_tf32", False),
        (backends.cudnn, "allow_tf32", False),
    ]


_lock = Lock()
# Number of threads inside the context, and the settings before the first of them entered.
_n_inside = 0
_before: list[Any] = []


@contextmanager
def exact_float32() -> Iterator[None]:
    """Context manager for deterministic float32 products in full precision.

    The settings apply to the whole process: the first thread to enter changes them, and the last
    one to leave restores them.
    """
    global _n_inside, _before
    settings = _settings()
    with _lock:
        _n_inside += 1
        if _n_inside == 1:
            _before = [getattr(owner, name) for owner, name, _ in settings]
            for owner, name, value in settings:
                setattr(owner, name, value)
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                for (owner, name, _), value in zip(settings, _before, strict=True):
                    setattr(owner, name, value)
