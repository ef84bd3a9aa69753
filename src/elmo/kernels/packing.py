"""Weights in the order a kernel reads them: packed once, and kept while they are what they were."""

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

_kept: Any = WeakTensorKeyDictionary()
_lock = Lock()


def packed(weight: Tensor, key: str, pack: Callable[[Tensor], T]) -> T:
    """Give what `pack` makes of a weight, made before where that was done.

    Args:
        weight: it may be changed in place, or be given other memory: then it is packed anew.
        key: tells one way of packing from another.
        pack: does it.
    """
    state = (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
    with _lock:
        ways = _kept.setdefault(weight, {})
        if key not in ways or ways[key][0] != state:
            ways[key] = (state, pack(weight))
        found: T = ways[key][1]
    return found
