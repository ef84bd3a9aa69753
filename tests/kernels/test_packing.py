"""Tests of the cache of packed weights."""

import gc

import torch

from elmo.kernels import packing
from elmo.kernels.packing import pack_once


def test_pack_once_packs_once_per_key():
    weight, calls = torch.ones(3), []

    def pack(value):
        calls.append(value)
        return float(value.sum())

    assert pack_once(weight, "a", pack) == pack_once(weight, "a", pack) == 3
    assert len(calls) == 1
    pack_once(weight, "b", pack)
    assert len(calls) == 2


def test_pack_once_repacks_after_a_change_in_place_or_of_memory():
    weight = torch.nn.Parameter(torch.ones(3))

    def total(value):
        return float(value.detach().sum())

    assert pack_once(weight, "sum", total) == 3
    with torch.no_grad():
        weight += 1
    assert pack_once(weight, "sum", total) == 6
    weight.data = torch.full((3,), 5.0)
    assert pack_once(weight, "sum", total) == 15


def test_pack_once_releases_the_packed_weight_with_its_weight():
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


def test_weight_fingerprint_detects_changes_without_a_new_version():
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


def test_weight_fingerprint_of_weights_without_memory():
    assert packing.weight_fingerprint(torch.ones(0)) == packing.weight_fingerprint(torch.ones(0))
    weight = torch.ones(3)
    before = packing.weight_fingerprint(weight)
    weight.untyped_storage().resize_(0)
    assert packing.weight_fingerprint(weight) != before


def test_weight_fingerprint_of_a_transposed_weight():
    weight = torch.arange(300.0).view(20, 15).t()
    before = packing.weight_fingerprint(weight)
    assert before == packing.weight_fingerprint(weight)
    weight.data.mul_(2)
    assert packing.weight_fingerprint(weight) != before


def test_pack_once_repacks_after_a_change_of_another_weight():
    weight, other = torch.ones(3), torch.ones(3)

    def total(_):
        return float(weight.sum() + other.sum())

    assert pack_once(weight, "both", total, [other]) == 6
    other += 1
    assert pack_once(weight, "both", total, [other]) == 9
