"""Cache of packed weights: weights in the order in which a kernel reads them, until they change."""

from collections.abc import Callable, Sequence
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from threading import Lock
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

_cache: Any = WeakTensorKeyDictionary()
_lock = Lock()


# Numbers of a weight that are compared to detect a change. Each of them costs a cache miss, since
# nothing else reads the original weights.
N_SAMPLES = 16
_UNSIGNED_BY_SIZE: dict[int, Any] = {2: c_uint16, 4: c_uint32, 8: c_uint64}


def weight_fingerprint(weight: Tensor) -> tuple[int, int, list[int]]:
    """Return what changes with a weight: its address, its version and a sample of its numbers.

    The version counter misses some changes, such as those through `weight.data` and of fused
    optimizers. These change all numbers, so a sample is compared, if the weight is on the CPU.
    """
    address, version = weight.data_ptr(), 0 if weight.is_inference() else weight._version
    # A weight whose storage was released has no address.
    if weight.device.type != "cpu" or not address:
        return address, version, []
    # Reading through ctypes takes a third of the time of indexing the tensor, which matters for a
    # single sentence: it checks about thirty weights.
    dense, n = weight.contiguous(), weight.numel()
    unsigned = _UNSIGNED_BY_SIZE.get(weight.element_size(), c_uint8)
    numbers = (unsigned * n).from_address(dense.data_ptr())
    return address, version, numbers[:: max(1, n // N_SAMPLES)]


def pack_once(
    weight: Tensor, key: str, pack: Callable[[Tensor], T], other_weights: Sequence[Tensor] = ()
) -> T:
    """Return `pack(weight)`, cached until a weight changes.

    Args:
        weight: Weight to pack. A change in place or of its memory invalidates the cache.
        key: Name of the packed layout; a weight can have several.
        pack: Function that packs the weight.
        other_weights: Further weights that `pack` reads. A change of these invalidates the cache,
            too.
    """
    fingerprints = tuple(map(weight_fingerprint, (weight, *other_weights)))
    with _lock:
        entries = _cache.setdefault(weight, {})
        if key not in entries or entries[key][0] != fingerprints:
            entries[key] = (fingerprints, pack(weight))
        value: T = entries[key][1]
    return value
