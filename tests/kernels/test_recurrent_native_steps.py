"""Tests of the recurrent steps in C: any block size, NaN, extreme values and unavailability."""

import pytest
import torch
from recurrent_arguments import CELLS, arguments, assert_same, make_call, with_gradients

from elmo.kernels import native_ffi, recurrent_cpu, recurrent_native_steps
from elmo.kernels.recurrent_cpu_steps import LSTMSteps, StepWeights
from elmo.kernels.recurrent_native_steps import NativeLSTMSteps

needs_library = pytest.mark.skipif(
    not native_ffi.can_compute("float32"), reason="needs a C compiler"
)


def without_library(monkeypatch, run):
    """Return the result of a function that uses PyTorch's operations."""
    with monkeypatch.context() as patch:
        patch.setattr(recurrent_native_steps, "can_run", lambda dtype: False)
        return run()


@needs_library
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 1), (3, 5), (4, 4), (5, 7), (16, 16)])
def test_native_steps_equal_those_of_torch_for_any_block_size(cell, batch, hidden, monkeypatch):
    tensors = arguments(cell, batch=batch, hidden=hidden, dtype=torch.float32)
    run = lambda: with_gradients(recurrent_cpu.run, cell, tensors)  # noqa: E731
    assert_same(run(), without_library(monkeypatch, run), atol=2e-5, rtol=1e-4)
    call = make_call(cell, tensors)
    with torch.no_grad():
        actual = recurrent_cpu.run(call)
        expected = without_library(monkeypatch, lambda: recurrent_cpu.run(call))
    torch.testing.assert_close(actual.output, expected.output, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(actual.c, expected.c, rtol=1e-5, atol=1e-6)


@needs_library
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
def test_native_steps_saturate_for_large_inputs(cell, monkeypatch):
    tensors = arguments(cell, dtype=torch.float32)
    tensors["x"] *= 1000
    run = lambda: with_gradients(recurrent_cpu.run, cell, tensors)  # noqa: E731
    assert_same(run(), without_library(monkeypatch, run), atol=1e-4, rtol=1e-4)


@needs_library
@pytest.mark.parametrize("cell", CELLS)
def test_nan_in_one_row_stays_in_that_row(cell):
    tensors = arguments(cell, dtype=torch.float32)
    tensors["x"][2, 1] = float("nan")
    output = recurrent_cpu.run(make_call(cell, tensors)).output
    is_nan = output.isnan().all(dim=2)
    assert is_nan[2:, 1].all()
    assert is_nan.sum() == len(output) - 2
    assert output.isnan().any(dim=2).sum() == len(output) - 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_use_the_library_for_float32_only(dtype):
    weights = StepWeights(torch.zeros(8, 2, dtype=dtype), torch.zeros(8, dtype=dtype), None, None)
    is_native = dtype == torch.float32 and native_ffi.can_compute("float32")
    expected = NativeLSTMSteps if is_native else LSTMSteps
    assert type(recurrent_cpu.make_steps("lstm", "tanh", weights)) is expected
