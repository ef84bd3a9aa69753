"""Tests of the checksum of weights, and of copies that are kept until a weight changes."""

import threading

import pytest
import torch

from elmo.kernels import weight_snapshot
from elmo.kernels.native_library import library
from elmo.kernels.weight_snapshot import WeightSnapshot, checksum


@pytest.fixture(autouse=True)
def needs_library():
    if library() is None:
        pytest.skip("no C compiler")


SHAPES = [(1,), (3,), (31,), (32,), (33,), (7, 11), (64, 64), (5, 4096)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_checksum_changes_with_any_single_bit(precisions, shape, dtype):
    generator = torch.Generator().manual_seed(len(shape))
    weight = torch.randn(shape, generator=generator).to(dtype)
    before = checksum(weight)
    assert checksum(weight.clone()) == before
    numbers = weight.view(-1).view(torch.uint8)
    positions = [0, len(numbers) - 1]
    positions += torch.randint(0, len(numbers), (20,), generator=generator).tolist()
    for position in positions:
        for bit in range(8):
            numbers[position] ^= 1 << bit
            assert checksum(weight) != before
            numbers[position] ^= 1 << bit
    assert checksum(weight) == before


@pytest.mark.parametrize("size", [64, 100, 2**12, 2**17, 2**17 + 5])
@pytest.mark.parametrize("fill", ["random", "ones", "zeros"])
def test_checksum_changes_with_signs_and_order(size, fill):
    make = {"random": torch.randn, "ones": torch.ones, "zeros": torch.zeros}[fill]
    weight = make(size)
    before = checksum(weight)
    for part in (slice(None), slice(0, None, 2), slice(1, None, 2), slice(7, None, 32)):
        changed = weight.clone()
        changed[part].neg_()
        assert checksum(changed) != before
        assert checksum(changed.neg_()) != before or part == slice(None)
    if fill == "random":
        for first, second in ((0, 1), (0, size - 1), (3, 35), (5, 37), (0, 32)):
            changed = weight.clone()
            changed[[first, second]] = weight[[second, first]]
            assert checksum(changed) != before
        assert checksum(weight.roll(1)) != before
        assert checksum(weight.roll(32)) != before
    assert checksum(weight[:-1]) != before


def test_checksum_reads_non_contiguous_weights_in_their_order():
    weight = torch.randn(6, 9)
    assert checksum(weight.t()) == checksum(weight.t().contiguous())
    assert checksum(weight.t()) != checksum(weight)
    assert checksum(torch.empty(0)) == checksum(torch.empty(0))


def test_checksum_is_none_without_the_library(monkeypatch):
    monkeypatch.setattr(weight_snapshot, "library", lambda: None)
    assert checksum(torch.ones(3)) is None
    assert checksum(torch.ones(3, device="meta")) is None


class Counted:
    """Counts how often copies of weights are made."""

    def __init__(self):
        self.n = 0

    def total(self, snapshot, *weights, layout="total"):
        def make():
            self.n += 1
            return sum(weight.sum().item() for weight in weights)

        return snapshot.copy(weights, layout, make)


def test_copy_is_made_once_per_layout():
    weight, counted = torch.ones(3), Counted()
    snapshot = WeightSnapshot([weight])
    assert counted.total(snapshot, weight) == counted.total(snapshot, weight) == 3
    assert counted.n == 1
    counted.total(snapshot, weight, layout="other")
    assert counted.n == 2


def test_updated_returns_the_same_snapshot_if_nothing_changed():
    weights = [torch.ones(3), torch.zeros(2)]
    snapshot, counted = WeightSnapshot(weights), Counted()
    counted.total(snapshot, *weights)
    for compare in ([], weights):
        assert snapshot.updated(weights, compare=compare) is snapshot


def test_updated_snapshot_shares_the_copies_of_unchanged_weights():
    a, b, counted = torch.ones(3), torch.ones(3), Counted()
    first = WeightSnapshot([a, b])
    counted.total(first, a)
    counted.total(first, b)
    counted.total(first, a, b, layout="both")
    b.add_(1)
    second = first.updated([a, b])
    assert second.identity is not first.identity
    assert counted.n == 3
    assert counted.total(second, a) == 3
    assert counted.n == 3
    assert counted.total(second, b) == 6
    assert counted.total(second, a, b, layout="both") == 9
    assert counted.n == 5


def test_snapshot_without_a_removed_weight_is_a_new_one():
    a, b = torch.ones(3), torch.ones(3)
    snapshot = WeightSnapshot([a, b]).updated([a])
    assert snapshot.covers([a, None])
    assert not snapshot.covers([a, b])


def test_uncounted_write_is_detected_only_if_the_weight_is_compared():
    weight, counted = torch.ones(3), Counted()
    snapshot = WeightSnapshot([weight])
    assert counted.total(snapshot, weight) == 3
    weight.data[1] = 5
    assert snapshot.updated([weight]) is snapshot
    assert counted.total(snapshot.updated([weight], compare=[weight]), weight) == 7


@pytest.mark.parametrize(
    "kind", ["trainable", "has gradient", "inference", "shared", "was trained"]
)
def test_uncounted_write_to_a_volatile_weight_is_always_detected(kind):
    if kind == "inference":
        with torch.inference_mode():
            weight = torch.ones(3)
    else:
        weight = torch.ones(3, requires_grad=kind in ("trainable", "was trained"))
    if kind == "has gradient":
        weight.grad = torch.ones(3)
    if kind == "shared":
        weight.share_memory_()
    snapshot, counted = WeightSnapshot([weight]), Counted()
    counted.total(snapshot, weight)
    assert snapshot.updated([weight]) is snapshot
    if kind == "was trained":
        snapshot, weight_before = WeightSnapshot([weight]), weight
        counted.total(snapshot, weight_before)
        weight.requires_grad_(False)
    with torch.inference_mode():
        weight.data[1] = 5
    assert counted.total(snapshot.updated([weight]), weight) == 7


def test_unused_weights_have_no_checksum(monkeypatch):
    calls = []
    monkeypatch.setattr(weight_snapshot, "checksum", lambda weight: calls.append(1) or 1)
    weights = [torch.ones(3, requires_grad=True), torch.ones(3)]
    snapshot = WeightSnapshot(weights)
    assert snapshot.updated(weights, compare=weights) is snapshot
    assert not calls
    snapshot.use(weights[:1])
    snapshot.updated(weights)
    assert len(calls) == 2


@pytest.mark.parametrize(("trainable", "is_same"), [(False, True), (True, False)])
def test_weights_without_checksum_are_only_trusted_if_they_are_not_trained(
    monkeypatch, trainable, is_same
):
    """On a GPU, or without the native library."""
    monkeypatch.setattr(weight_snapshot, "library", lambda: None)
    weight = torch.ones(3, requires_grad=trainable)
    snapshot = WeightSnapshot([weight])
    snapshot.use([weight])
    assert (snapshot.updated([weight], compare=[weight]) is snapshot) == is_same


def test_concurrent_first_uses_make_one_copy():
    weight, counted = torch.ones(3), Counted()
    snapshot, barrier = WeightSnapshot([weight]), threading.Barrier(8, timeout=60)

    def work():
        barrier.wait()
        counted.total(snapshot, weight)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.n == 1
