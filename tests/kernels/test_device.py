"""Tests of device helpers that do not require a GPU."""

import importlib.util

import pytest
import torch

from elmo.kernels import characters_fused, characters_reference, device, lstm_fused
from elmo.kernels.device import (
    can_fuse,
    is_out_of_memory,
    on_device_of,
    product_dtype,
    wide_product,
)
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.torch_kernels import AUTO_KERNELS, REFERENCE_KERNELS


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
def test_is_out_of_memory_recognizes_cpu_and_gpu_errors(error, expected):
    assert is_out_of_memory(error) == expected


def test_product_dtype_follows_autocast():
    value = torch.zeros(2, dtype=torch.float64)
    assert product_dtype(value) == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product_dtype(value) == torch.bfloat16


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_wide_product_of_bfloat16_is_float32(shape):
    a, b = torch.randn(shape).bfloat16(), torch.randn(shape).bfloat16().mT
    product = wide_product(a, b)
    assert product.dtype == torch.float32
    torch.testing.assert_close(product.double(), a.double() @ b.double(), rtol=0, atol=1e-5)


def test_can_fuse_is_false_for_a_cpu_tensor():
    assert not can_fuse(torch.zeros(1))
    with on_device_of(torch.zeros(1)):
        pass


def test_triton_works_on_is_false_without_triton(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not device._triton_works_on.__wrapped__(torch.device("cuda"))


def test_kernels_run_character_convolutions_with_the_requested_kernel(monkeypatch):
    monkeypatch.setattr(characters_fused, "can_run", lambda *_: True)
    monkeypatch.setattr(characters_fused, "convolve_and_pool", lambda *_: "fused")
    monkeypatch.setattr(characters_reference, "convolve_and_pool", lambda *_: "reference result")
    args = (torch.zeros(1), torch.zeros(1), [], [])
    assert AUTO_KERNELS.convolve_and_pool(*args) == "fused"
    assert REFERENCE_KERNELS.convolve_and_pool(*args) == "reference result"


def direction(**changes):
    """Return an LSTM call with zero tensors, to test the checks of shapes, dtypes and clips."""
    defaults = {
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
    return LSTMCall(**{**defaults, **changes})


def test_fused_lstm_requires_equal_settings_for_all_directions(monkeypatch):
    assert not lstm_fused.can_run([direction()])
    monkeypatch.setattr(lstm_fused, "can_fuse", lambda tensor: True)
    assert lstm_fused.can_run([direction(), direction(reverse=True)])
    unsupported = [
        direction(cell_clip=1.0),
        direction(projection_clip=None),
        direction(c=torch.zeros(3, 5, dtype=torch.float64)),
        direction(x=torch.zeros(2, 3, 4, dtype=torch.float64)),
        direction(h=torch.zeros(3, 5), weight_hr=None),
    ]
    for other in unsupported:
        assert not lstm_fused.can_run([direction(), other])
