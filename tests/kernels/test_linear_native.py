"""A linear layer in C: what `functional.linear` gives."""

import pytest
import torch
from torch.nn import functional

from elmo.kernels import choose, linear_native, native_calls
from elmo.kernels.narrow import computing_in

TOLERANCE = {"float32": 1e-6, "bfloat16x3": 2e-5, "bfloat16": 1e-2, "int8": 2e-2}


def draw(rows, k=128, n=96):
    generator = torch.Generator().manual_seed(rows)
    return tuple(torch.randn(shape, generator=generator) for shape in ((rows, k), (n, k), (n,)))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 17, 300])
def test_it_is_the_reference(arithmetics, rows, n_threads, monkeypatch):
    monkeypatch.setattr(native_calls.torch, "get_num_threads", lambda: n_threads)
    given = draw(rows)
    expected = functional.linear(*given)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert linear_native.can_run(*given)
                found = linear_native.linear(*given, arithmetic)
                assert torch.equal(found, choose.linear(*given))
                wide = choose.linear(*given, may_be_narrow=False)
            assert (wide - expected).norm() <= TOLERANCE["float32"] * expected.norm()
            assert (found - expected).norm() <= TOLERANCE[arithmetic] * expected.norm()


def test_rows_of_zeros(arithmetics):
    x, weight, bias = draw(3)
    x, weight = torch.zeros_like(x), torch.zeros_like(weight)
    with torch.inference_mode():
        for arithmetic in arithmetics:
            found = linear_native.linear(x, weight, bias, arithmetic)
            assert torch.equal(found, bias.expand(3, -1))


def test_where_it_runs(arithmetics):
    x, weight, bias = draw(3)
    assert not linear_native.can_run(x, weight, bias)
    with torch.inference_mode():
        assert not linear_native.can_run(x[None], weight, bias)
        assert not linear_native.can_run(x, weight[:50], bias[:50])
        assert not linear_native.can_run(x[:, :50], weight[:, :50], bias)
        assert torch.equal(
            choose.linear(x[None], weight, bias), functional.linear(x, weight, bias)[None]
        )
