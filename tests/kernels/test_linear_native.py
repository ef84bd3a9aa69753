"""Tests that compare the native linear and highway layers with PyTorch."""

import pytest
import torch
from torch.nn import functional

from elmo.kernels import linear_native, native_ffi
from elmo.kernels.native_kernels import NativeKernels
from elmo.kernels.torch_kernels import REFERENCE_KERNELS
from elmo.kernels.weight_snapshot import WeightSnapshot

TOLERANCE = {"float32": 1e-6, "int8x3": 2e-6, "bfloat16": 1e-2, "int8": 2e-2}


def linear(x, weight, bias):
    return linear_native.linear(x, weight, bias, WeightSnapshot([weight]))


def highway(precision, x, weight, bias):
    return linear_native.highway(x, weight, bias, WeightSnapshot([weight]), precision)


def kernels(precision, weight):
    return NativeKernels(WeightSnapshot([weight]), precision)


def draw(rows, k=128, n=192):
    generator = torch.Generator().manual_seed(rows)
    return tuple(torch.randn(shape, generator=generator) for shape in ((rows, k), (n, k), (n,)))


@pytest.fixture(params=[1, 2, 5])
def n_threads(request, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: request.param)


@pytest.mark.parametrize("rows", [0, 1, 17, 300])
def test_native_linear_layer_matches_pytorch(precisions, rows, n_threads):
    args = draw(rows)
    expected = functional.linear(*args)
    with torch.inference_mode():
        for precision in precisions:
            assert linear_native.can_run(*args)
            actual = linear(*args)
            assert torch.equal(actual, kernels(precision, args[1]).linear(*args))
            # Linear layers compute in float32 in every precision.
            assert (actual - expected).norm() <= TOLERANCE["float32"] * expected.norm()


@pytest.mark.parametrize("k", [64, 512, 2048])
def test_native_linear_layer_is_as_precise_as_float32_sums(precisions, k):
    """For comparison: sequential float32 sums have errors of 1.5e-7, 4e-7 and 8e-7."""
    x, weight, bias = draw(200, k=k)
    bias = 0 * bias
    exact = functional.linear(x.double(), weight.double())
    with torch.inference_mode():
        actual = linear(x, weight, bias)
    assert (actual - exact).norm() <= {64: 3e-7, 512: 4.5e-7, 2048: 9e-7}[k] * exact.norm()


def test_float32_has_ieee_products_also_with_one_outlier_per_row(precisions):
    x, weight, bias = draw(200, k=512)
    x[:, 0], weight[:, 0], bias = 1000, 0, 0 * bias
    exact = functional.linear(x.double(), weight.double())
    with torch.inference_mode():
        actual = linear(x, weight, bias)
    assert (actual - exact).norm() <= 4.5e-7 * exact.norm()


@pytest.mark.parametrize("rows", [0, 1, 17, 300])
def test_native_highway_layer_matches_pytorch(precisions, rows, n_threads):
    x, weight, bias = draw(rows, n=256)
    # The tolerance of low precision assumes sums of this size.
    args = x, weight / 8, bias
    expected = REFERENCE_KERNELS.highway(*args)
    transform, gate = functional.linear(*args).chunk(2, dim=1)
    gate = gate.sigmoid()
    assert torch.allclose(expected, gate * transform.relu() + (1 - gate) * x, atol=1e-6)
    with torch.inference_mode():
        for precision in precisions:
            assert linear_native.can_run_highway(*args)
            actual = highway(precision, *args)
            assert torch.equal(actual, kernels(precision, args[1]).highway(*args))
            assert (actual - expected).norm() <= TOLERANCE[precision] * expected.norm()


def test_highway_output_of_a_row_does_not_depend_on_other_rows(precisions):
    x, weight, bias = draw(300, n=256)
    with torch.inference_mode():
        for precision in precisions:
            all_rows = highway(precision, x, weight, bias)
            for rows in (slice(0, 1), slice(7, 40), slice(245, 300)):
                assert torch.equal(highway(precision, x[rows], weight, bias), all_rows[rows])


def test_linear_and_highway_with_zero_inputs_and_weights_use_only_the_bias(precisions):
    x, weight, bias = draw(3, n=256)
    x, weight = torch.zeros_like(x), torch.zeros_like(weight)
    transform, gate = bias.chunk(2)
    with torch.inference_mode():
        for precision in precisions:
            assert torch.equal(linear(x, weight, bias), bias.expand(3, -1))
            actual = highway(precision, x, weight, bias)
            assert torch.allclose(actual, (gate.sigmoid() * transform.relu()).expand(3, -1))


def test_highway_layer_propagates_nan_and_inf(precisions):
    x, weight, bias = draw(20, n=256)
    x[3, 5], x[7, 9] = float("nan"), float("inf")
    with torch.inference_mode():
        for precision in precisions:
            actual = highway(precision, x, weight, bias)
            assert actual[3].isnan().all()
            assert not actual[7].isfinite().all()
            assert actual[[0, 1, 2, 4, 5, 6, *range(8, 20)]].isfinite().all()


def test_highway_with_saturated_gate_returns_exactly_transform_or_input(precisions):
    x, weight = torch.full((3, 128), 1e6), torch.zeros(256, 128)
    bias = torch.cat([torch.full((128,), 0.12345), torch.full((128,), 30.0)])
    with torch.inference_mode():
        for precision in precisions:
            assert torch.allclose(highway(precision, x, weight, bias), bias[0])
            assert torch.equal(highway(precision, x, weight, -bias), x)


def test_linear_and_highway_reject_wrong_shapes(precisions):
    x, weight, bias = draw(3, n=256)
    wrong = [(x[:, :64], weight, bias), (x, weight, bias[:64]), (x, weight[:192], bias[:192])]
    with torch.inference_mode():
        for args in wrong:
            with pytest.raises(RuntimeError):
                kernels("float32", args[1]).highway(*args)
        for args in wrong[:2]:
            with pytest.raises(RuntimeError):
                kernels("float32", args[1]).linear(*args)


def test_native_linear_layer_requires_inference_mode_and_supported_shapes(precisions):
    x, weight, bias = draw(3)
    assert not linear_native.can_run(x, weight, bias)
    with torch.inference_mode():
        assert not linear_native.can_run(x[None], weight, bias)
        assert not linear_native.can_run(x, weight[:50], bias[:50])
        assert not linear_native.can_run(x[:, :50], weight[:, :50], bias)
        actual = kernels("float32", weight).linear(x[None], weight, bias)
        assert torch.equal(actual, functional.linear(x, weight, bias)[None])
