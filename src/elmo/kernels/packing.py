"""Weights in the order a kernel reads them: packed once, and kept while they are what they were."""

from collections.abc import Callable, Sequence
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from threading import Lock
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

_kept: Any = WeakTensorKeyDictionary()
_lock = Lock()


# Numbers of a weight that are looked at to see whether it has changed; nothing else reads the lines
# of memory that they lie in.
LOOKED_AT = 16
_NUMBERS: dict[int, Any] = {2: c_uint16, 4: c_uint32, 8: c_uint64}


def weight_fingerprint(weight: Tensor) -> tuple[int, int, list[int]]:
    """Tell a weight from what it was before: its memory, its version, some of its numbers.

    Not everything that changes a weight counts as a version: `weight.data` does not, nor do fused
    optimisers. They change all numbers, so a few are looked at, where that costs no waiting.
    """
    address, version = weight.data_ptr(), 0 if weight.is_inference() else weight._version
    # Memory that was given back has no address.
    if weight.device.type != "cpu" or not address:
        return address, version, []
    # Where they lie, in a third of the time: a sentence alone is computed with thirty weights.
    dense, n = weight.contiguous(), weight.numel()
    numbers = (_NUMBERS.get(weight.element_size(), c_uint8) * n).from_address(dense.data_ptr())
    return address, version, numbers[:: max(1, n // LOOKED_AT)]


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
    state = tuple(map(weight_fingerprint, (weight, *beside)))
    with _lock:
        ways = _kept.setdefault(weight, {})
        if key not in ways or ways[key][0] != state:
            ways[key] = (state, pack(weight))
        found: T = ways[key][1]
    return found
