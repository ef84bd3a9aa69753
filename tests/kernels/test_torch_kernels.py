"""Tests of LSTM kernel selection, and of the cuDNN kernel against the reference."""

from types import SimpleNamespace
from typing import get_args

import pytest
import torch

from elmo.config.training import Kernel
from elmo.errors import ConfigError
from elmo.kernels import lstm_cudnn, lstm_fused, lstm_reference
from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.torch_kernels import AUTO_KERNELS, NAMES, Kernels

STEPS, BATCH, DIM, CELL, PROJECTION = 6, 3, 4, 5, 2


def arguments(projected=True, dtype=torch.float64, device="cpu", seed=0):
    """Return random weights, input and state for one direction."""
    generator = torch.Generator().manual_seed(seed)
    width = PROJECTION if projected else CELL
    shapes = {
        "x": (STEPS, BATCH, DIM),
        "weight_ih": (4 * CELL, DIM),
        "weight_hh": (4 * CELL, width),
        "bias": (4 * CELL,),
        "weight_hr": (PROJECTION, CELL),
        "h": (BATCH, width),
        "c": (BATCH, CELL),
    }
    drawn = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)
        for name, shape in shapes.items()
    }
    return drawn if projected else {**drawn, "weight_hr": None}


def options(**changes):
    """Return the non-tensor options of a call without padding, clips and resets."""
    defaults = {
        "mask": torch.ones(STEPS, BATCH, dtype=torch.bool),
        "active": [BATCH] * STEPS,
        "cell_clip": None,
        "projection_clip": None,
        "reverse": False,
    }
    return {**defaults, **changes}


def with_gradients(kernel, tensors, **named):
    """Run a kernel for one direction and return its results and the gradients of all tensors."""
    leaves = {
        name: value.clone().requires_grad_() for name, value in tensors.items() if value is not None
    }
    (results,) = kernel([LSTMCall(**{**tensors, **leaves}, **named)])
    loss = sum((value * (n + 1)).square().sum() for n, value in enumerate(results))
    return [*results, *torch.autograd.grad(loss, list(leaves.values()))]


# ----------------------------------------------------------------------------- choice of kernel


@pytest.fixture
def chosen(monkeypatch):
    """Return a function that maps a call to the name of the selected kernel."""
    for module, name in ((lstm_cudnn, "cudnn"), (lstm_reference, "reference")):
        monkeypatch.setattr(module, "lstm", lambda _, _name=name: _name)
    monkeypatch.setattr(lstm_fused, "can_run", lambda _: False)

    def call(*others, kernel="auto", **changes):
        return Kernels(kernel).lstm([fake_call(**changes), *others])

    return call


def fake_call(*, is_cuda=True, projected=True, **changes):
    """Return a call whose input is a stub instead of a tensor on a GPU."""
    tensors = {**arguments(projected), "x": SimpleNamespace(is_cuda=is_cuda, requires_grad=False)}
    return LSTMCall(**tensors, **options(**changes))


UNSUPPORTED = [
    {"is_cuda": False},
    {"cell_clip": 3.0},
    {"cell_clip": 3.0, "projected": False},
    {"projection_clip": 3.0},
    {"active": None},
    {"active": [BATCH] * (STEPS - 1) + [BATCH - 1]},
    {"resets": torch.zeros(STEPS, BATCH, dtype=torch.bool)},
]


@pytest.mark.parametrize("reverse", [False, True])
def test_auto_selects_cudnn_for_supported_calls(chosen, reverse):
    assert chosen(reverse=reverse) == "cudnn"
    assert chosen(reverse=reverse, projected=False) == "cudnn"
    # Without a projection its clip is ignored.
    assert chosen(reverse=reverse, projected=False, projection_clip=3.0) == "cudnn"


@pytest.mark.parametrize("changes", UNSUPPORTED, ids=str)
def test_auto_selects_reference_for_calls_that_cudnn_does_not_support(chosen, changes):
    assert chosen(**changes) == "reference"


@pytest.mark.parametrize("changes", UNSUPPORTED, ids=str)
def test_auto_selects_reference_if_cudnn_does_not_support_one_direction(chosen, changes):
    assert chosen(fake_call(reverse=True)) == "cudnn"
    assert chosen(fake_call(**changes)) == "reference"


def test_auto_selects_reference_if_cudnn_is_disabled(chosen, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert chosen() == "reference"


def test_kernels_run_lstm_with_the_requested_kernel(chosen):
    assert chosen(kernel="cudnn") == "cudnn"
    assert chosen(kernel="reference") == "reference"


@pytest.mark.parametrize("changes", UNSUPPORTED, ids=str)
def test_kernels_reject_a_requested_kernel_that_cannot_run(chosen, changes):
    assert chosen(**changes, kernel="reference") == "reference"
    with pytest.raises(ConfigError) as caught:
        chosen(**changes, kernel="cudnn")
    assert str(caught.value) == (
        "Kernel 'cudnn' needs a CUDA device with cuDNN, rows of equal length, no clips and no "
        "resets. Use auto or reference instead."
    )


def test_unknown_kernel_error_lists_the_known_kernels(chosen):
    with pytest.raises(ConfigError) as caught:
        chosen(kernel="cuda")
    assert str(caught.value) == (
        "Unknown kernel 'cuda'. Expected one of: auto, fused, cudnn, reference."
    )


def test_config_accepts_every_kernel():
    assert NAMES == get_args(Kernel)


@pytest.mark.parametrize(("can", "name"), [("11", "fused"), ("01", "cudnn"), ("00", "reference")])
def test_auto_selects_the_first_kernel_that_can_run(monkeypatch, can, name):
    for module, module_name, flag in (
        (lstm_fused, "fused", can[0]),
        (lstm_cudnn, "cudnn", can[1]),
        (lstm_reference, "reference", "1"),
    ):
        monkeypatch.setattr(module, "lstm", lambda calls, _name=module_name: (_name, calls))
        monkeypatch.setattr(module, "can_run", lambda _, _can=flag == "1": _can, raising=False)
    directions = [fake_call(), fake_call(reverse=True)]
    chosen_name, calls = AUTO_KERNELS.lstm(directions)
    assert chosen_name == name
    assert calls is directions


# ----------------------------------------------------------------------------- results of cuDNN


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_cudnn_matches_reference(reverse, projected, indexed):
    tensors, named = arguments(projected), {"reverse": reverse}
    if indexed:
        tensors["x"] = tensors["x"].flatten(0, 1)[:7]
        named["index"] = torch.arange(STEPS * BATCH).view(STEPS, BATCH) * 5 % 7
    actual = with_gradients(lstm_cudnn.lstm, tensors, **options(**named))
    expected = with_gradients(lstm_reference.lstm, tensors, **options(**named))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", [lstm_cudnn, lstm_reference, AUTO_KERNELS])
def test_cudnn_call_with_two_directions_equals_two_separate_calls(kernel):
    forward = LSTMCall(**arguments(), **options())
    backward = LSTMCall(**arguments(seed=1), **options(reverse=True))
    both = kernel.lstm([forward, backward])
    separate = [*kernel.lstm([forward]), *kernel.lstm([backward])]
    assert len(both) == 2
    torch.testing.assert_close(both, separate, rtol=0, atol=0)
    assert not torch.allclose(both[0][0], both[1][0])


def test_cudnn_returns_cell_state_in_its_original_dtype():
    tensors = arguments(projected=False, dtype=torch.float32)
    tensors["c"] = tensors["c"].double()
    ((outputs, h, c),) = lstm_cudnn.lstm([LSTMCall(**tensors, **options())])
    assert (outputs.dtype, h.dtype, c.dtype) == (torch.float32, torch.float32, torch.float64)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cudnn_on_a_gpu_matches_reference(reverse, projected, dtype):
    tensors = arguments(projected, dtype, "cuda")
    with exact_float32():
        actual = with_gradients(Kernels("cudnn").lstm, tensors, **options(reverse=reverse))
        expected = with_gradients(lstm_reference.lstm, tensors, **options(reverse=reverse))
    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
