"""Tests of the packed-weight cache."""

import gc

import torch

from elmo.kernels import packing
from elmo.kernels.packing import pack_once


def test_pack_once_packs_a_weight_once_per_key():
    weight, calls = torch.ones(3), []

    def pack(value):
        calls.append(value)
        return float(value.sum())

    assert pack_once(weight, "a", pack) == pack_once(weight, "a", pack) == 3
    assert len(calls) == 1
    pack_once(weight, "b", pack)
    assert len(calls) == 2


def test_pack_once_repacks_after_an_in_place_change_or_new_memory():
    weight = torch.nn.Parameter(torch.ones(3))

    def total(value):
        return float(value.detach().sum())

    assert pack_once(weight, "sum", total) == 3
    with torch.no_grad():
        weight += 1
    assert pack_once(weight, "sum", total) == 6
    weight.data = torch.full((3,), 5.0)
    assert pack_once(weight, "sum", total) == 15


def test_packed_weight_is_released_when_its_weight_is_deleted():
    gc.collect()
    weight = torch.ones(3)
    before = len(packing._cache)
    pack_once(weight, "sum", torch.sum)
    assert len(packing._cache) == before + 1
    del weight
    gc.collect()
    assert len(packing._cache) == before


def test_pack_once_accepts_inference_tensors():
    with torch.inference_mode():
        weight = torch.ones(3)
        assert pack_once(weight, "sum", torch.sum) == 3


def test_weight_fingerprint_detects_changes_that_the_version_counter_misses():
    weight = torch.nn.Parameter(torch.ones(300))
    before = packing.weight_fingerprint(weight)
    weight.data.mul_(2)
    assert packing.weight_fingerprint(weight) != before
    before = packing.weight_fingerprint(weight)
    weight.grad = torch.ones(300)
    torch.optim.Adam([weight], fused=True).step()
    assert packing.weight_fingerprint(weight) != before
    for dtype in (torch.bfloat16, torch.int8, torch.float64, torch.complex128):
        constant = torch.ones(3, dtype=dtype)
        assert packing.weight_fingerprint(constant) == packing.weight_fingerprint(constant)


def test_weight_fingerprint_accepts_weights_without_storage():
    assert packing.weight_fingerprint(torch.ones(0)) == packing.weight_fingerprint(torch.ones(0))
    weight = torch.ones(3)
    before = packing.weight_fingerprint(weight)
    weight.untyped_storage().resize_(0)
    assert packing.weight_fingerprint(weight) != before


def test_weight_fingerprint_detects_changes_of_a_transposed_weight():
    weight = torch.arange(300.0).view(20, 15).t()
    before = packing.weight_fingerprint(weight)
    assert before == packing.weight_fingerprint(weight)
    weight.data.mul_(2)
    assert packing.weight_fingerprint(weight) != before


def test_pack_once_repacks_if_one_of_the_other_weights_changes():
    weight, other = torch.ones(3), torch.ones(3)

    def total(_):
        return float(weight.sum() + other.sum())

    assert pack_once(weight, "both", total, [other]) == 6
    other += 1
    assert pack_once(weight, "both", total, [other]) == 9
