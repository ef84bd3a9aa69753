"""What a device can do, asked where there is none."""

import importlib.util

import pytest
import torch

from elmo.kernels import device, dispatch, lstm_fused
from elmo.kernels.device import (
    can_fuse,
    is_out_of_memory,
    on_device_of,
    product_dtype,
    wide_product,
)
from elmo.kernels.lstm_call import LSTMCall


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("x"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("no"), False),
    ],
)
def test_what_says_that_memory_has_ended(error, expected):
    assert is_out_of_memory(error) == expected


def test_the_precision_of_products():
    value = torch.zeros(2, dtype=torch.float64)
    assert product_dtype(value) == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product_dtype(value) == torch.bfloat16


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_products_into_float32(shape):
    a, b = torch.randn(shape).bfloat16(), torch.randn(shape).bfloat16().mT
    found = wide_product(a, b)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=0, atol=1e-5)


def test_without_a_gpu():
    assert not can_fuse(torch.zeros(1))
    with on_device_of(torch.zeros(1)):
        pass


def test_without_triton(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not device._compiles_on.__wrapped__(torch.device("cuda"))


def test_the_plain_convolution_by_name(monkeypatch):
    monkeypatch.setattr(dispatch.characters_fused, "can_run", lambda *_: True)
    monkeypatch.setattr(dispatch.characters_fused, "convolve_and_pool", lambda *_: "fused")
    monkeypatch.setattr(dispatch.characters_reference, "convolve_and_pool", lambda *_: "plain")
    given = (torch.zeros(1), torch.zeros(1), [], [])
    assert dispatch.convolve_and_pool(*given) == "fused"
    assert dispatch.convolve_and_pool(*given, "reference") == "plain"


def direction(**given):
    """Give a direction of nothing, in which only shapes and clips count."""
    plain = {
        "x": torch.zeros(2, 3, 4),
        "weight_ih": torch.zeros(20, 4),
        "weight_hh": torch.zeros(20, 4),
        "bias": torch.zeros(20),
        "weight_hr": torch.zeros(4, 5),
        "h": torch.zeros(3, 4),
        "c": torch.zeros(3, 5),
        "mask": torch.ones(2, 3, dtype=torch.bool),
        "active": [3, 3],
        "cell_clip": 3.0,
        "projection_clip": 3.0,
        "reverse": False,
    }
    return LSTMCall(**{**plain, **given})


def test_what_the_fused_layer_takes(monkeypatch):
    assert not lstm_fused.can_run([direction()])
    monkeypatch.setattr(lstm_fused, "can_fuse", lambda tensor: True)
    assert lstm_fused.can_run([direction(), direction(reverse=True)])
    others = [
        direction(cell_clip=1.0),
        direction(projection_clip=None),
        direction(c=torch.zeros(3, 5, dtype=torch.float64)),
        direction(x=torch.zeros(2, 3, 4, dtype=torch.float64)),
        direction(h=torch.zeros(3, 5), weight_hr=None),
    ]
    for other in others:
        assert not lstm_fused.can_run([direction(), other])
