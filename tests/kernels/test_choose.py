"""Which kernel runs, and that cuDNN's call is the reference's: on the CPU, and on a GPU."""

from types import SimpleNamespace

import pytest
import torch

from elmo.kernels import choose, lstm_cudnn, lstm_reference
from elmo.kernels.precision import exact_float32

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
    """Call a kernel and give its results and the gradient of everything it was given."""
    given = {
        name: value.clone().requires_grad_() for name, value in tensors.items() if value is not None
    }
    call = {**tensors, **given}
    results = kernel(call.pop("x"), **call, **named)
    loss = sum((value * (n + 1)).square().sum() for n, value in enumerate(results))
    return [*results, *torch.autograd.grad(loss, list(given.values()))]


# ------------------------------------------------------------------------------------ the choice


@pytest.fixture
def chosen(monkeypatch):
    """Give the kernel that is chosen for a call; nothing is computed."""
    for module, name in ((lstm_cudnn, "cudnn"), (lstm_reference, "reference")):
        monkeypatch.setattr(module, "lstm", lambda *_, _name=name, **__: _name)

    def call(*, is_cuda=True, projected=True, **given):
        tensors = {**arguments(projected), "x": SimpleNamespace(is_cuda=is_cuda)}
        return choose.lstm(tensors.pop("x"), **tensors, **dials(**given))

    return call


@pytest.mark.parametrize("reverse", [False, True])
def test_cudnn_where_it_can(chosen, reverse):
    assert chosen(reverse=reverse) == "cudnn"
    assert chosen(reverse=reverse, projected=False) == "cudnn"
    # Without a projection its bound is ignored.
    assert chosen(reverse=reverse, projected=False, projection_clip=3.0) == "cudnn"


@pytest.mark.parametrize(
    "given",
    [
        {"is_cuda": False},
        {"cell_clip": 3.0},
        {"cell_clip": 3.0, "projected": False},
        {"projection_clip": 3.0},
        {"active": None},
        {"active": [BATCH] * (STEPS - 1) + [BATCH - 1]},
        {"resets": torch.zeros(STEPS, BATCH, dtype=torch.bool)},
    ],
    ids=str,
)
def test_the_reference_for_everything_else(chosen, given):
    assert chosen(**given) == "reference"


def test_the_reference_where_cudnn_is_switched_off(chosen, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert chosen() == "reference"


def test_everything_is_handed_on(monkeypatch):
    received = {}

    def kernel(x, **named):
        received.update(named, x=x)

    given = {**arguments(), "index": torch.zeros(STEPS, BATCH, dtype=torch.long)}
    named = dials(reverse=True, cell_clip=0.5, projection_clip=0.25, resets=torch.ones(1))
    monkeypatch.setattr(lstm_reference, "lstm", kernel)
    choose.lstm(**given, **named)
    assert received.keys() == given.keys() | named.keys()
    assert all(received[name] is value for name, value in {**given, **named}.items())
    received.clear()
    given["x"] = SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(lstm_cudnn, "lstm", kernel)
    choose.lstm(**given, **dials(reverse=True))
    assert received.keys() == given.keys() | {"reverse"}
    assert all(received[name] is value for name, value in given.items())
    assert received["reverse"] is True


# ------------------------------------------------------------------------------------ the values


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_cudnn_is_the_reference(reverse, projected, indexed):
    tensors, named = arguments(projected), {"reverse": reverse}
    if indexed:
        tensors["x"] = tensors["x"].flatten(0, 1)[:7]
        named["index"] = torch.arange(STEPS * BATCH).view(STEPS, BATCH) * 5 % 7
    found = with_gradients(lstm_cudnn.lstm, tensors, **named)
    expected = with_gradients(lstm_reference.lstm, tensors, **dials(**named))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_wide_cell_stays_wide():
    tensors = arguments(projected=False, dtype=torch.float32)
    tensors["c"] = tensors["c"].double()
    outputs, h, c = lstm_cudnn.lstm(tensors.pop("x"), **tensors, reverse=False)
    assert (outputs.dtype, h.dtype, c.dtype) == (torch.float32, torch.float32, torch.float64)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cudnn_on_a_gpu_is_the_reference(monkeypatch, reverse, projected, dtype):
    tensors = arguments(projected, dtype, "cuda")
    called = []
    inner = lstm_cudnn.lstm
    monkeypatch.setattr(
        lstm_cudnn, "lstm", lambda *given, **named: called.append(1) or inner(*given, **named)
    )
    with exact_float32():
        found = with_gradients(choose.lstm, tensors, **dials(reverse=reverse))
        expected = with_gradients(lstm_reference.lstm, tensors, **dials(reverse=reverse))
    assert called
    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
