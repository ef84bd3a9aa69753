"""Which kernel runs, and that cuDNN's call is the reference's: on the CPU, and on a GPU."""

from functools import partial
from types import SimpleNamespace
from typing import get_args

import pytest
import torch

from elmo.config.training import Kernel
from elmo.errors import ConfigError
from elmo.kernels import dispatch, lstm_cudnn, lstm_reference
from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.lstm_call import LSTMCall

STEPS, BATCH, DIM, CELL, PROJECTION = 6, 3, 4, 5, 2


def arguments(projected=True, dtype=torch.float64, device="cpu", seed=0):
    """Draw weights, input and state that both kernels take."""
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


def dials(**given):
    """What the reference takes beside tensors: no padding, no clips, no resets."""
    plain = {
        "mask": torch.ones(STEPS, BATCH, dtype=torch.bool),
        "active": [BATCH] * STEPS,
        "cell_clip": None,
        "projection_clip": None,
        "reverse": False,
    }
    return {**plain, **given}


def with_gradients(kernel, tensors, **named):
    """Call a kernel for one direction; give its results and the gradients of all tensors."""
    given = {
        name: value.clone().requires_grad_() for name, value in tensors.items() if value is not None
    }
    (results,) = kernel([LSTMCall(**{**tensors, **given}, **named)])
    loss = sum((value * (n + 1)).square().sum() for n, value in enumerate(results))
    return [*results, *torch.autograd.grad(loss, list(given.values()))]


# ------------------------------------------------------------------------------------ the choice


@pytest.fixture
def chosen(monkeypatch):
    """Give the kernel that is chosen for a call; nothing is computed."""
    for module, name in ((lstm_cudnn, "cudnn"), (lstm_reference, "reference")):
        monkeypatch.setattr(module, "lstm", lambda _, _name=name: _name)
    monkeypatch.setattr(dispatch, "FAST", {"cudnn": lstm_cudnn})

    def call(*others, kernel="auto", **given):
        return dispatch.lstm([pretended(**given), *others], kernel)

    return call


def pretended(*, is_cuda=True, projected=True, **given):
    """Give a direction that says where it is, for those who only look."""
    tensors = {**arguments(projected), "x": SimpleNamespace(is_cuda=is_cuda)}
    return LSTMCall(**tensors, **dials(**given))


CANNOT = [
    {"is_cuda": False},
    {"cell_clip": 3.0},
    {"cell_clip": 3.0, "projected": False},
    {"projection_clip": 3.0},
    {"active": None},
    {"active": [BATCH] * (STEPS - 1) + [BATCH - 1]},
    {"resets": torch.zeros(STEPS, BATCH, dtype=torch.bool)},
]


@pytest.mark.parametrize("reverse", [False, True])
def test_cudnn_where_it_can(chosen, reverse):
    assert chosen(reverse=reverse) == "cudnn"
    assert chosen(reverse=reverse, projected=False) == "cudnn"
    # Without a projection its bound is ignored.
    assert chosen(reverse=reverse, projected=False, projection_clip=3.0) == "cudnn"


@pytest.mark.parametrize("given", CANNOT, ids=str)
def test_the_reference_for_everything_else(chosen, given):
    assert chosen(**given) == "reference"


@pytest.mark.parametrize("given", CANNOT, ids=str)
def test_cudnn_takes_all_directions_or_none(chosen, given):
    assert chosen(pretended(reverse=True)) == "cudnn"
    assert chosen(pretended(**given)) == "reference"


def test_the_reference_where_cudnn_is_switched_off(chosen, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert chosen() == "reference"


def test_by_name(chosen):
    assert chosen(kernel="cudnn") == "cudnn"
    assert chosen(kernel="reference") == "reference"


@pytest.mark.parametrize("given", CANNOT, ids=str)
def test_a_named_kernel_that_cannot(chosen, given):
    assert chosen(**given, kernel="reference") == "reference"
    with pytest.raises(ConfigError) as caught:
        chosen(**given, kernel="cudnn")
    assert str(caught.value) == (
        "kernel is cudnn, which needs a CUDA device with cuDNN, rows of equal length, no clips and "
        "no resets: take auto or reference"
    )


def test_an_unknown_name_lists_the_known(chosen):
    with pytest.raises(ConfigError) as caught:
        chosen(kernel="cuda")
    assert str(caught.value) == "kernel is 'cuda'; known: auto, cudnn, reference"


def test_every_kernel_can_be_set():
    """What is known here is what a config takes, but for what has no gradients."""
    assert {"auto", *dispatch.FAST, "reference"} - {"native"} <= set(get_args(Kernel))


@pytest.mark.parametrize(("can", "name"), [("11", "first"), ("01", "second"), ("00", "reference")])
def test_auto_takes_the_first_that_can(monkeypatch, can, name):
    def kernel(name, can=True):
        return SimpleNamespace(can_run=lambda _: can, lstm=lambda given: (name, given))

    fast = {"first": kernel("first", can[0] == "1"), "second": kernel("second", can[1] == "1")}
    monkeypatch.setattr(dispatch, "FAST", fast)
    monkeypatch.setattr(lstm_reference, "lstm", kernel("reference").lstm)
    directions = [object(), object()]
    found, given = dispatch.lstm(directions)
    assert found == name
    assert given is directions


# ------------------------------------------------------------------------------------ the values


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_cudnn_is_the_reference(reverse, projected, indexed):
    tensors, named = arguments(projected), {"reverse": reverse}
    if indexed:
        tensors["x"] = tensors["x"].flatten(0, 1)[:7]
        named["index"] = torch.arange(STEPS * BATCH).view(STEPS, BATCH) * 5 % 7
    found = with_gradients(lstm_cudnn.lstm, tensors, **dials(**named))
    expected = with_gradients(lstm_reference.lstm, tensors, **dials(**named))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", [lstm_cudnn, lstm_reference, dispatch])
def test_two_directions_are_two_calls(kernel):
    ahead = LSTMCall(**arguments(), **dials())
    back = LSTMCall(**arguments(seed=1), **dials(reverse=True))
    together = kernel.lstm([ahead, back])
    alone = [*kernel.lstm([ahead]), *kernel.lstm([back])]
    assert len(together) == 2
    torch.testing.assert_close(together, alone, rtol=0, atol=0)
    assert not torch.allclose(together[0][0], together[1][0])


def test_a_wide_cell_stays_wide():
    tensors = arguments(projected=False, dtype=torch.float32)
    tensors["c"] = tensors["c"].double()
    ((outputs, h, c),) = lstm_cudnn.lstm([LSTMCall(**tensors, **dials())])
    assert (outputs.dtype, h.dtype, c.dtype) == (torch.float32, torch.float32, torch.float64)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cudnn_on_a_gpu_is_the_reference(reverse, projected, dtype):
    tensors = arguments(projected, dtype, "cuda")
    with exact_float32():
        by_name = partial(dispatch.lstm, kernel="cudnn")
        found = with_gradients(by_name, tensors, **dials(reverse=reverse))
        expected = with_gradients(lstm_reference.lstm, tensors, **dials(reverse=reverse))
    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
