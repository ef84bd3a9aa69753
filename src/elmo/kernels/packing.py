"""Cache of packed weights (copies in the layout a kernel reads), updated when a weight changes."""

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
    """Return the address, the version counter and some values of a weight, to detect changes.

    The version counter misses some changes, such as those made through `weight.data` or by fused
    optimizers. These change all values, so a sample of the values is enough to detect them. Only
    weights on the CPU are sampled.
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
    """Return `pack(weight)`, cached until one of the weights changes.

    Args:
        weight: Weight to pack. It is packed again after an in-place change or if its memory moves.
        key: Name of the packed layout. A weight can be cached in several layouts.
        pack: Function that packs the weight.
        other_weights: Other weights that `pack` reads. The weight is packed again if they change.
    """
    fingerprints = tuple(map(weight_fingerprint, (weight, *other_weights)))
    with _lock:
        entries = _cache.setdefault(weight, {})
        if key not in entries or entries[key][0] != fingerprints:
            entries[key] = (fingerprints, pack(weight))
        value: T = entries[key][1]
    return value
