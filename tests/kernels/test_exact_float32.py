"""Tests that `exact_float32` changes all precision settings of PyTorch and restores them."""

import pytest
import torch

from elmo.kernels.exact_float32 import exact_float32

has_fp32_precision = pytest.mark.skipif(
    not hasattr(torch.backends.cudnn, "conv"), reason="this PyTorch version has no fp32_precision"
)


def operations():
    backends = torch.backends
    return {
        "matrix products": backends.cuda.matmul,
        "convolutions": backends.cudnn.conv,
        "cuDNN's LSTM": backends.cudnn.rnn,
        "matrix products on the host": backends.mkldnn.matmul,
        "convolutions on the host": backends.mkldnn.conv,
    }


@has_fp32_precision
@pytest.mark.parametrize("operation", operations() if hasattr(torch.backends.cudnn, "conv") else [])
@pytest.mark.parametrize("value", ["tf32", "ieee"])
def test_exact_float32_sets_and_restores_the_precision_of_every_operation(operation, value):
    settings = operations()[operation]
    before = settings.fp32_precision
    settings.fp32_precision = value
    try:
        with exact_float32():
            assert {each.fp32_precision for each in operations().values()} == {"ieee"}
        assert settings.fp32_precision == value
    finally:
        settings.fp32_precision = before


@has_fp32_precision
def test_overlapping_exact_float32_contexts_restore_the_original_settings():
    """The last thread to exit restores the settings that the first one changed."""
    settings = torch.backends.cudnn.conv
    before = settings.fp32_precision
    first, second = exact_float32(), exact_float32()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings.fp32_precision == "ieee"
    second.__exit__(None, None, None)
    assert settings.fp32_precision == before


def test_exact_float32_disables_cudnn_benchmarking():
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = True, False
    try:
        with exact_float32():
            assert (cudnn.benchmark, cudnn.deterministic) == (False, True)
        assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
        with pytest.raises(ValueError, match="failed"), exact_float32():
            raise ValueError("failed")
        assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
    finally:
        cudnn.benchmark, cudnn.deterministic = before
