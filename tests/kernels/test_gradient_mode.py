"""Tests of `no_grad_if_unneeded`, and that every operation uses it."""

import pytest
import torch
from torch.autograd import forward_ad

from elmo.kernels import characters_reference, lstm_reference
from elmo.kernels.gradient_mode import no_grad_if_unneeded
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.torch_kernels import REFERENCE_KERNELS


def is_recorded(*tensors):
    """Return whether gradients are enabled inside the context."""
    with no_grad_if_unneeded(tensors):
        return torch.is_grad_enabled()


def test_context_disables_gradients_if_no_tensor_requires_them():
    frozen, trained = torch.ones(2), torch.ones(2, requires_grad=True)
    assert not is_recorded(frozen, frozen)
    assert is_recorded(frozen, trained)
    assert is_recorded(frozen, 2 * trained)
    with torch.no_grad():
        assert not is_recorded(frozen, trained)
    assert torch.is_grad_enabled()


# PyTorch itself uses torch.jit.script for forward-mode derivatives.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_context_keeps_gradients_inside_function_transforms():
    x = torch.ones(3)
    seen = []

    def recorded(value):
        seen.append(is_recorded(value))
        return value**2

    torch.func.vmap(recorded)(x)
    torch.func.vjp(recorded, x)
    with forward_ad.dual_level():
        recorded(forward_ad.make_dual(x, x))
    assert seen == [True] * 3


def test_results_of_the_context_can_be_saved_for_backward():
    with no_grad_if_unneeded([torch.ones(2)]):
        result = torch.arange(2.0) + 1
    weight = torch.ones(2, requires_grad=True)
    (weight * result).sum().backward()
    assert weight.grad.tolist() == [1.0, 2.0]


@pytest.fixture
def modes(monkeypatch):
    """Return a list to which reference kernels append whether gradients are enabled."""
    seen = []

    def record(inner):
        def call(*arguments):
            seen.append(torch.is_grad_enabled())
            return inner(*arguments)

        return call

    for module, name in (
        (lstm_reference, "lstm"),
        (characters_reference, "convolve_and_pool"),
        (torch.nn.functional, "linear"),
    ):
        monkeypatch.setattr(module, name, record(getattr(module, name)))
    return seen


LSTM = {
    "x": (3, 2, 4),
    "weight_ih": (20, 4),
    "weight_hh": (20, 4),
    "bias": (20,),
    "weight_hr": (4, 5),
    "h": (2, 4),
    "c": (2, 5),
}
LINEAR = {"x": (2, 4), "weight": (8, 4), "bias": (8,)}


def run_lstm(**tensors):
    call = LSTMCall(
        **tensors,
        mask=torch.ones(3, 2, dtype=torch.bool),
        active=[2, 2, 2],
        cell_clip=3.0,
        projection_clip=3.0,
        reverse=False,
    )
    return REFERENCE_KERNELS.lstm([call])[0][0]


def run_characters(table, weight, bias):
    characters = torch.ones(2, 5, dtype=torch.long)
    return REFERENCE_KERNELS.convolve_and_pool(characters, table, [weight], [bias])


OPERATIONS = [
    (run_lstm, LSTM),
    (run_characters, {"table": (6, 4), "weight": (3, 4, 2), "bias": (3,)}),
    (REFERENCE_KERNELS.linear, LINEAR),
    (REFERENCE_KERNELS.highway, LINEAR),
]


@pytest.mark.parametrize(("run", "shapes"), OPERATIONS)
def test_every_operation_records_gradients_only_for_tensors_that_require_them(modes, run, shapes):
    tensors = {name: torch.full(shape, 0.1) for name, shape in shapes.items()}
    assert not run(**tensors).requires_grad
    assert modes == [False]
    for name in shapes:
        trained = tensors[name].clone().requires_grad_()
        output = run(**{**tensors, name: trained})
        assert modes[-1]
        (gradient,) = torch.autograd.grad(output.sum(), trained)
        assert gradient.any(), name
