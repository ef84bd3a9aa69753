"""Float32 in full: every switch of this PyTorch is set inside and put back outside."""

import pytest
import torch

from elmo.kernels.exact_float32 import exact_float32

newer = pytest.mark.skipif(
    not hasattr(torch.backends.cudnn, "conv"), reason="this PyTorch has switches of another kind"
)


def places():
    backends = torch.backends
    return {
        "matrix products": backends.cuda.matmul,
        "convolutions": backends.cudnn.conv,
        "cuDNN's LSTM": backends.cudnn.rnn,
        "matrix products on the host": backends.mkldnn.matmul,
        "convolutions on the host": backends.mkldnn.conv,
    }


@newer
@pytest.mark.parametrize("place", places() if hasattr(torch.backends.cudnn, "conv") else [])
@pytest.mark.parametrize("value", ["tf32", "ieee"])
def test_every_product_is_exact(place, value):
    switch = places()[place]
    before = switch.fp32_precision
    switch.fp32_precision = value
    try:
        with exact_float32():
            assert {each.fp32_precision for each in places().values()} == {"ieee"}
        assert switch.fp32_precision == value
    finally:
        switch.fp32_precision = before


@newer
def test_threads_that_overlap():
    """The last to leave puts back what the first found."""
    switch = torch.backends.cudnn.conv
    before = switch.fp32_precision
    first, second = exact_float32(), exact_float32()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert switch.fp32_precision == "ieee"
    second.__exit__(None, None, None)
    assert switch.fp32_precision == before


def test_algorithms_are_not_picked_by_a_race():
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = True, False
    try:
        with exact_float32():
            assert (cudnn.benchmark, cudnn.deterministic) == (False, True)
        assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
        with pytest.raises(ValueError, match="torn"), exact_float32():
            raise ValueError("torn")
        assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
    finally:
        cudnn.benchmark, cudnn.deterministic = before
