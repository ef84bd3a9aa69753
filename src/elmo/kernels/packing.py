"""Weights in the order a kernel reads them: packed once, and kept while they are what they were."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

_kept: Any = WeakTensorKeyDictionary()
_lock = Lock()


# Numbers of a weight that are looked at to see whether it has changed.
LOOKED_AT = 64


def state_of(weight: Tensor) -> tuple[int, int, bytes]:
    """Tell a weight from what it was before: its memory, its version, some of its numbers.

    Not everything that changes a weight counts as a version: `weight.data` does not, nor do fused
    optimisers. They change all numbers, so a few are looked at, where that costs no waiting.
    """
    version = 0 if weight.is_inference() else weight._version
    sample = b""
    if weight.device.type == "cpu":
        plain = weight.detach()
        if plain.dtype == torch.bfloat16:
            plain = plain.view(torch.int16)
        # By NumPy, in half of the time: a sentence alone is computed with twenty weights.
        step = max(1, weight.numel() // LOOKED_AT)
        sample = plain.numpy().reshape(-1)[::step].tobytes()
    return weight.data_ptr(), version, sample


def packed(
    weight: Tensor, key: str, pack: Callable[[Tensor], T], beside: Sequence[Tensor] = ()
) -> T:
    """Give what `pack` makes of a weight, made before where that was done.

    Args:
        weight: it may be changed in place, or be given other memory: then it is packed anew.
        key: tells one way of packing from another.
        pack: does it.
        beside: other weights that it looks at, as long as they are what they were, too.
    """
    state = tuple(map(state_of, (weight, *beside)))
    with _lock:
        ways = _kept.setdefault(weight, {})
        if key not in ways or ways[key][0] != state:
            ways[key] = (state, pack(weight))
        found: T = ways[key][1]
    return found
