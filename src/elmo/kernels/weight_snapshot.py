"""Copies of weights in the layout that the native kernels read, and detection of changed weights.

A copy is made on first use. A snapshot never changes the weight that a copy was made from; a weight
that changes gets a new entry in the next snapshot.
"""

import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from elmo.kernels.native_library import library
from elmo.kernels.native_threads import run_tasks

T = TypeVar("T")

_lock = RLock()


def packing_lock() -> RLock:
    """Return the lock that is held while copies are made and snapshots are replaced."""
    return _lock


def _renew_lock() -> None:
    """Replace the lock in a forked process: another thread may have held it during the fork."""
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Source:
    """A weight as it was when it was recorded, and the copies made from it.

    It holds the weight and its memory, so that no other tensor can have the same identity or
    address.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self._storage = weight.untyped_storage()
        self._is_cpu = weight.device.type == "cpu"
        # Tensors that were created in inference mode have no version counter.
        self._has_version = not weight.is_inference()
        self._record = self._current_record()
        self._was_volatile = self._is_volatile()
        self._is_used = False
        self._checksum: int | None = None
        # By layout: the other sources that the copy was made from, and the copy.
        self.copies: dict[str, tuple[tuple[_Source, ...], Any]] = {}

    def use(self) -> None:
        """Remember the numbers of the weight, before something is computed from them."""
        if not self._is_used:
            self._checksum = checksum(self.weight)
            self._is_used = True

    def matches_record(self) -> bool:
        """Whether memory and version counter are those of the recorded weight."""
        return self._current_record() == self._record

    def _current_record(self) -> tuple[object, ...]:
        weight = self.weight
        version = weight._version if self._has_version else 0
        return weight.data_ptr(), version, weight.dtype, weight.shape, weight.stride()

    def _is_volatile(self) -> bool:
        """Whether the version counter is missing, or misses ordinary ways to change the weight."""
        weight = self.weight
        if weight.requires_grad or not self._has_version or weight.grad is not None:
            return True
        return self._is_cpu and self._storage.is_shared()

    def needs_checksum(self, is_compared: bool) -> bool:
        """Whether the record does not suffice: on request, or for a volatile weight."""
        if not self._is_used:
            return False
        if is_compared and self._checksum is not None:
            return True
        return self._was_volatile or self._is_volatile()

    def matches_checksum(self) -> bool:
        """Whether all numbers are those of the recorded weight. False if this cannot be checked."""
        is_volatile = self._is_volatile()
        if self._checksum is None or checksum(self.weight) != self._checksum:
            return False
        self._was_volatile = is_volatile
        return True


class WeightSnapshot:
    """Weights and the copies made from them.

    No other snapshot has the same object as `identity`. Results that were computed with a snapshot
    are valid as long as the current snapshot has the same identity.
    """

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        """Record weights without subclasses of tensors, such as distributed ones."""
        self.identity = object()
        self._sources = {id(weight): _Source(weight) for weight in weights if is_plain(weight)}

    def updated(
        self, weights: Iterable[Tensor], *, compare: Iterable[Tensor] = ()
    ) -> "WeightSnapshot":
        """Return a snapshot of the given weights, which is this one if nothing changed.

        A new snapshot shares the copies of all weights that did not change. All numbers of the
        weights in `compare` are compared: a version counter misses writes through `weight.data`,
        for example. It is never trusted for weights that may be trained (fused optimizers do not
        change it), for those that have none, and for those in memory shared with other processes.
        """
        compared = set(map(id, compare))
        found = {id(weight): (weight, self._sources.get(id(weight))) for weight in weights}
        current = {
            key: source
            for key, (_, source) in found.items()
            if source is not None and source.matches_record()
        }
        unchecked = [
            source for key, source in current.items() if source.needs_checksum(key in compared)
        ]
        changed: set[_Source] = set()

        def check(source: _Source) -> None:
            if not source.matches_checksum():
                changed.add(source)

        run_tasks(partial(check, source) for source in unchecked)
        if len(current) == len(found) == len(self._sources) and not changed:
            return self
        snapshot = WeightSnapshot()
        snapshot._sources = {
            key: _Source(weight) if key not in current or current[key] in changed else current[key]
            for key, (weight, _) in found.items()
        }
        return snapshot

    def covers(self, weights: Iterable[Tensor | None]) -> bool:
        """Whether all given weights belong to the snapshot and have memory."""
        return all(
            weight is None or (id(weight) in self._sources and weight.data_ptr() != 0)
            for weight in weights
        )

    def use(self, weights: Iterable[Tensor]) -> None:
        """Take the checksums of weights from which results are computed that outlive a call."""
        with packing_lock():
            for weight in weights:
                if id(weight) in self._sources:
                    self._sources[id(weight)].use()

    def copy(self, weights: Sequence[Tensor], layout: str, make: Callable[[], T]) -> T:
        """Return `make()`, kept until one of the weights that it reads changes.

        `layout` names the copy, differently for each function and list of weights.
        """
        first, *others = (self._sources[id(weight)] for weight in weights)
        key = tuple(others)
        kept = first.copies.get(layout)
        if kept is None or kept[0] != key:
            with packing_lock():
                kept = first.copies.get(layout)
                if kept is None or kept[0] != key:
                    # Before the copy is made: a write by another thread is then detected.
                    for source in (first, *others):
                        source.use()
                    kept = first.copies[layout] = (key, make())
        value: T = kept[1]
        return value


def is_plain(weight: Tensor) -> bool:
    """Whether a weight is an ordinary tensor in memory, which the native library can read."""
    return type(weight) in (Tensor, nn.Parameter) and weight.layout == torch.strided


def checksum(weight: Tensor) -> int | None:
    """Return a checksum of all numbers of a weight; None without the native library or on a GPU."""
    loaded = library() if weight.device.type == "cpu" else None
    if loaded is None:
        return None
    dense = weight.detach().contiguous()
    number: int = loaded.checksum(
        ctypes.c_void_p(dense.data_ptr()), ctypes.c_long(dense.numel() * dense.element_size())
    )
    return number
