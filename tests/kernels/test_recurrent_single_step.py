"""Tests of the kernel for single steps of a recurrent layer without gradients."""

import pytest
import torch
from recurrent_arguments import CELLS, arguments, make_call

from elmo.kernels import recurrent_kernels, recurrent_reference, recurrent_single_step
from elmo.kernels.recurrent_call import MogrifierRound

WITHOUT_PROJECTION = [cell for cell in CELLS if cell != "lstmp"]


@pytest.mark.parametrize("cell", WITHOUT_PROJECTION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [1, 3])
def test_single_step_equals_reference(cell, dtype, batch):
    call = make_call(cell, arguments(cell, steps=1, batch=batch, dtype=dtype))
    with torch.no_grad():
        assert recurrent_single_step.can_run(call)
        actual, expected = recurrent_single_step.run(call), recurrent_reference.run(call)
    for name in ("output", "h", "c"):
        if getattr(expected, name) is not None:
            torch.testing.assert_close(getattr(actual, name), getattr(expected, name))
    assert actual.c is None or cell == "lstm"


@pytest.mark.parametrize("cell", CELLS)
def test_auto_uses_single_step_only_for_one_step_without_gradients(cell, monkeypatch):
    used = []
    run = recurrent_single_step.run
    monkeypatch.setattr(recurrent_single_step, "run", lambda call: used.append(call) or run(call))
    tensors = arguments(cell, steps=1)
    recurrent_kernels.run_recurrent(make_call(cell, tensors))
    assert bool(used) == (cell != "lstmp")
    used.clear()
    recurrent_kernels.run_recurrent(make_call(cell, arguments(cell, steps=2)))
    recurrent_kernels.run_recurrent(make_call(cell, arguments(cell, steps=1, masked=True)))
    recurrent_kernels.run_recurrent(make_call(cell, tensors), "cpu")
    trained = {**tensors, "weight_hh": tensors["weight_hh"].clone().requires_grad_()}
    assert recurrent_kernels.run_recurrent(make_call(cell, trained)).output.requires_grad
    assert used == []


def test_single_step_supports_no_mogrifier_gates_autocast_or_mixed_dtypes():
    tensors = arguments("lstm", steps=1, dtype=torch.float32)
    dims = tensors["x"].shape[2], tensors["h"].shape[1]
    with torch.no_grad():
        assert recurrent_single_step.can_run(make_call("lstm", tensors))
        rounds = [MogrifierRound(torch.zeros(dims))]
        assert not recurrent_single_step.can_run(
            make_call("lstm", {**tensors, "mogrifier": rounds})
        )
        mixed = {**tensors, "x": tensors["x"].double()}
        assert not recurrent_single_step.can_run(make_call("lstm", mixed))
        with torch.autocast("cpu", torch.bfloat16):
            assert not recurrent_single_step.can_run(make_call("lstm", tensors))
