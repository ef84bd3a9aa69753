"""What is packed is kept while the weight is what it was."""

import gc

import torch

from elmo.kernels import packing
from elmo.kernels.packing import packed


def test_it_is_packed_once_for_each_way():
    weight, calls = torch.ones(3), []

    def pack(value):
        calls.append(value)
        return float(value.sum())

    assert packed(weight, "a", pack) == packed(weight, "a", pack) == 3
    assert len(calls) == 1
    packed(weight, "b", pack)
    assert len(calls) == 2


def test_a_change_in_place_or_of_memory():
    weight = torch.nn.Parameter(torch.ones(3))

    def total(value):
        return float(value.detach().sum())

    assert packed(weight, "sum", total) == 3
    with torch.no_grad():
        weight += 1
    assert packed(weight, "sum", total) == 6
    weight.data = torch.full((3,), 5.0)
    assert packed(weight, "sum", total) == 15


def test_it_goes_with_its_weight():
    gc.collect()
    weight = torch.ones(3)
    before = len(packing._kept)
    packed(weight, "sum", torch.sum)
    assert len(packing._kept) == before + 1
    del weight
    gc.collect()
    assert len(packing._kept) == before


def test_weights_made_for_inference():
    with torch.inference_mode():
        weight = torch.ones(3)
        assert packed(weight, "sum", torch.sum) == 3


def test_what_no_version_tells():
    weight = torch.nn.Parameter(torch.ones(300))
    before = packing.weight_fingerprint(weight)
    weight.data.mul_(2)
    assert packing.weight_fingerprint(weight) != before
    before = packing.weight_fingerprint(weight)
    weight.grad = torch.ones(300)
    torch.optim.Adam([weight], fused=True).step()
    assert packing.weight_fingerprint(weight) != before
    for dtype in (torch.bfloat16, torch.int8, torch.float64, torch.complex128):
        narrow_or_wide = torch.ones(3, dtype=dtype)
        assert packing.weight_fingerprint(narrow_or_wide) == packing.weight_fingerprint(
            narrow_or_wide
        )


def test_weights_without_memory():
    assert packing.weight_fingerprint(torch.ones(0)) == packing.weight_fingerprint(torch.ones(0))
    weight = torch.ones(3)
    before = packing.weight_fingerprint(weight)
    weight.untyped_storage().resize_(0)
    assert packing.weight_fingerprint(weight) != before


def test_numbers_in_another_order():
    weight = torch.arange(300.0).view(20, 15).t()
    before = packing.weight_fingerprint(weight)
    assert before == packing.weight_fingerprint(weight)
    weight.data.mul_(2)
    assert packing.weight_fingerprint(weight) != before


def test_what_is_made_of_several_is_made_anew_when_one_has_changed():
    weight, other = torch.ones(3), torch.ones(3)

    def total(_):
        return float(weight.sum() + other.sum())

    assert packed(weight, "both", total, [other]) == 6
    other += 1
    assert packed(weight, "both", total, [other]) == 9
