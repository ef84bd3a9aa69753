"""Tests of the choice of recurrent kernels, and of the cuDNN kernel against the reference."""

from types import SimpleNamespace

import pytest
import torch
from recurrent_arguments import (
    CELLS,
    DIM,
    HIDDEN,
    arguments,
    assert_same,
    make_call,
    with_gradients,
)

from elmo.errors import ConfigError
from elmo.kernels import recurrent_cpu, recurrent_cudnn, recurrent_kernels, recurrent_reference
from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.recurrent_call import MogrifierRound
from elmo.kernels.recurrent_kernels import run_recurrent


@pytest.fixture
def used_kernels(monkeypatch):
    """Record the modules that run, in order."""
    used = []

    def recorded(name, run):
        def wrapper(*args):
            used.append(name)
            return run(*args)

        return wrapper

    for module in (recurrent_cpu, recurrent_cudnn, recurrent_reference):
        name = module.__name__.rpartition("_")[2]
        monkeypatch.setattr(module, "run", recorded(name, module.run))
    return used


@pytest.mark.parametrize("cell", CELLS)
def test_auto_uses_the_cpu_kernel_on_a_cpu(cell, used_kernels):
    call = make_call(cell, arguments(cell, masked=True))
    results = [run_recurrent(call, kernel).output for kernel in ("auto", "cpu", "reference")]
    assert used_kernels == ["cpu", "cpu", "reference"]
    torch.testing.assert_close(results[0], results[2], rtol=0, atol=1e-12)


def test_auto_uses_the_reference_for_recording_and_mogrifier_gates(used_kernels):
    tensors = arguments("lstm")
    assert run_recurrent(make_call("lstm", tensors), record=True).gates is not None
    rounds = [MogrifierRound(torch.zeros(DIM, HIDDEN, dtype=torch.float64))]
    run_recurrent(make_call("lstm", {**tensors, "mogrifier": rounds}))
    assert used_kernels == ["reference", "reference"]


def test_selected_kernel_that_does_not_support_the_call_is_an_error():
    call = make_call("lstm", arguments("lstm"))
    with pytest.raises(ConfigError, match=r"Kernel 'cudnn' needs a CUDA device"):
        run_recurrent(call, "cudnn")
    with pytest.raises(ConfigError, match=r"Kernel 'cpu' needs .* no recorded gates"):
        run_recurrent(call, "cpu", record=True)
    with pytest.raises(ConfigError, match=r"Unknown kernel 'mkl'. Expected one of: auto, cudnn"):
        run_recurrent(call, "mkl")


def test_call_without_trainable_tensors_runs_without_gradients(monkeypatch):
    modes = []
    monkeypatch.setattr(
        recurrent_kernels.recurrent_cpu, "run", lambda call: modes.append(torch.is_grad_enabled())
    )
    tensors = arguments("gru")
    run_recurrent(make_call("gru", tensors))
    tensors["weight_hh"].requires_grad_()
    run_recurrent(make_call("gru", tensors))
    assert modes == [False, True]


@pytest.mark.parametrize("cell", CELLS)
def test_cudnn_kernel_on_cpu_tensors_equals_reference(cell):
    # The functions that it calls accept CPU tensors too.
    tensors = arguments(cell)
    expected = with_gradients(recurrent_reference.run, cell, tensors)
    assert_same(with_gradients(recurrent_cudnn.run, cell, tensors), expected)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("hidden", [16, 19])
@pytest.mark.parametrize("cell", CELLS)
def test_padded_dimensions_do_not_change_the_result_of_cudnn(cell, hidden):
    tensors = arguments(cell, dim=13, hidden=hidden)
    padded = recurrent_cudnn._aligned(make_call(cell, tensors))
    for name in ("x", "h", "weight_ih", "weight_hh"):
        assert getattr(padded, name).shape[-1] % recurrent_cudnn.ALIGNMENT == 0
    expected = with_gradients(recurrent_reference.run, cell, tensors)
    assert_same(with_gradients(recurrent_cudnn.run, cell, tensors), expected)


# On CPUs with oneDNN, PyTorch warns about the cell lstmp.
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("cell", CELLS)
def test_cudnn_kernel_uses_the_autocast_dtype_and_keeps_that_of_the_cell(cell):
    call = make_call(cell, arguments(cell, dtype=torch.float32))
    expected = recurrent_reference.run(call)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrent_cudnn.run(call)
    assert result.output.dtype == result.h.dtype == torch.bfloat16
    assert result.c is None or result.c.dtype == torch.float32
    torch.testing.assert_close(result.output.float(), expected.output, rtol=0, atol=0.05)


def test_cudnn_supports_calls_on_a_gpu_without_mask_and_mogrifier(monkeypatch):
    def fake(is_cuda=True, mask=None, mogrifier=()):
        return SimpleNamespace(
            x=SimpleNamespace(is_cuda=is_cuda), state_mask=mask, mogrifier=mogrifier
        )

    assert recurrent_cudnn.can_run(fake())
    assert not recurrent_cudnn.can_run(fake(is_cuda=False))
    assert not recurrent_cudnn.can_run(fake(mask=torch.zeros(1)))
    assert not recurrent_cudnn.can_run(fake(mogrifier=[MogrifierRound(torch.zeros(1, 1))]))
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert not recurrent_cudnn.can_run(fake())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("cell", CELLS)
def test_cudnn_on_a_gpu_equals_reference(cell):
    tensors = {
        name: None if value is None else value.cuda() for name, value in arguments(cell).items()
    }
    with exact_float32():
        expected = with_gradients(recurrent_reference.run, cell, tensors)
        result = with_gradients(lambda call: run_recurrent(call, "cudnn"), cell, tensors)
    assert_same(result, expected, atol=1e-10)
