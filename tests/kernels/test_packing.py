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
    before = packing.state_of(weight)
    weight.data.mul_(2)
    assert packing.state_of(weight) != before
    before = packing.state_of(weight)
    weight.grad = torch.ones(300)
    torch.optim.Adam([weight], fused=True).step()
    assert packing.state_of(weight) != before
    half = torch.ones(3, dtype=torch.bfloat16)
    assert packing.state_of(half) == packing.state_of(half)
