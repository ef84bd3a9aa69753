"""Linear and highway layers in C: what PyTorch gives."""

import pytest
import torch
from torch.nn import functional

from elmo.kernels import dispatch, linear_native, native_ffi
from elmo.kernels.compute_precision import computing_in

TOLERANCE = {"float32": 1e-6, "bfloat16": 1e-2, "int8": 2e-2}


def draw(rows, k=128, n=192):
    generator = torch.Generator().manual_seed(rows)
    return tuple(torch.randn(shape, generator=generator) for shape in ((rows, k), (n, k), (n,)))


@pytest.fixture(params=[1, 2, 5])
def n_threads(request, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: request.param)


@pytest.mark.parametrize("rows", [0, 1, 17, 300])
def test_linear_is_the_reference(arithmetics, rows, n_threads):
    given = draw(rows)
    expected = functional.linear(*given)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert linear_native.can_run(*given)
                found = linear_native.linear(*given)
                assert torch.equal(found, dispatch.linear(*given))
            # Whatever is asked for: its products are not narrow.
            assert (found - expected).norm() <= TOLERANCE["float32"] * expected.norm()


@pytest.mark.parametrize("k", [64, 512, 2048])
def test_float32_is_as_exact_as_its_sums_are(arithmetics, k):
    """One product after the other in float32 comes to 1.5e-7, 4e-7 and 8e-7."""
    x, weight, bias = draw(200, k=k)
    bias = 0 * bias
    exact = functional.linear(x.double(), weight.double())
    with torch.inference_mode():
        found = linear_native.linear(x, weight, bias)
    assert (found - exact).norm() <= {64: 3e-7, 512: 4.5e-7, 2048: 9e-7}[k] * exact.norm()


def test_float32_beside_a_number_that_is_a_thousand_times_as_large(arithmetics):
    """By bytes a number is as exact as the largest of its row: three digits are lost, no more."""
    x, weight, bias = draw(200, k=512)
    x[:, 0], weight[:, 0], bias = 1000, 0, 0 * bias
    exact = functional.linear(x.double(), weight.double())
    with torch.inference_mode():
        found = linear_native.linear(x, weight, bias)
    allowed = 1e-4 if native_ffi.kind_of("float32") == "int8x3" else 4.5e-7
    assert (found - exact).norm() <= allowed * exact.norm()


@pytest.mark.parametrize("rows", [0, 1, 17, 300])
def test_highway_is_the_reference(arithmetics, rows, n_threads):
    x, weight, bias = draw(rows, n=256)
    # What a product of narrow numbers loses stands beside sums of this size.
    given = x, weight / 8, bias
    expected = dispatch.highway(*given, "reference")
    transform, gate = functional.linear(*given).chunk(2, dim=1)
    share = gate.sigmoid()
    assert torch.allclose(expected, share * transform.relu() + (1 - share) * x, atol=1e-6)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert linear_native.can_run(*given)
                found = linear_native.highway(*given)
                assert torch.equal(found, dispatch.highway(*given))
            assert (found - expected).norm() <= TOLERANCE[arithmetic] * expected.norm()


def test_a_row_depends_on_itself_alone(arithmetics):
    x, weight, bias = draw(300, n=256)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                together = linear_native.highway(x, weight, bias)
                for rows in (slice(0, 1), slice(7, 40), slice(245, 300)):
                    assert torch.equal(linear_native.highway(x[rows], weight, bias), together[rows])


def test_rows_of_zeros(arithmetics):
    x, weight, bias = draw(3, n=256)
    x, weight = torch.zeros_like(x), torch.zeros_like(weight)
    transform, gate = bias.chunk(2)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert torch.equal(linear_native.linear(x, weight, bias), bias.expand(3, -1))
                found = linear_native.highway(x, weight, bias)
            assert torch.allclose(found, (gate.sigmoid() * transform.relu()).expand(3, -1))


def test_what_is_no_number_stays_none(arithmetics):
    x, weight, bias = draw(20, n=256)
    x[3, 5], x[7, 9] = float("nan"), float("inf")
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                found = linear_native.highway(x, weight, bias)
            assert found[3].isnan().all()
            assert not found[7].isfinite().all()
            assert found[[0, 1, 2, 4, 5, 6, *range(8, 20)]].isfinite().all()


def test_an_open_gate_leaves_nothing_of_what_was_there(arithmetics):
    x, weight = torch.full((3, 128), 1e6), torch.zeros(256, 128)
    bias = torch.cat([torch.full((128,), 0.12345), torch.full((128,), 30.0)])
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert torch.allclose(linear_native.highway(x, weight, bias), bias[0])
                assert torch.equal(linear_native.highway(x, weight, -bias), x)


def test_wrong_shapes_are_refused(arithmetics):
    x, weight, bias = draw(3, n=256)
    wrong = [(x[:, :64], weight, bias), (x, weight, bias[:64]), (x, weight[:192], bias[:192])]
    with torch.inference_mode():
        for given in wrong:
            with pytest.raises(RuntimeError):
                dispatch.highway(*given)
        for given in wrong[:2]:
            with pytest.raises(RuntimeError):
                dispatch.linear(*given)


def test_where_it_runs(arithmetics):
    x, weight, bias = draw(3)
    assert not linear_native.can_run(x, weight, bias)
    with torch.inference_mode():
        assert not linear_native.can_run(x[None], weight, bias)
        assert not linear_native.can_run(x, weight[:50], bias[:50])
        assert not linear_native.can_run(x[:, :50], weight[:, :50], bias)
        assert torch.equal(
            dispatch.linear(x[None], weight, bias), functional.linear(x, weight, bias)[None]
        )
