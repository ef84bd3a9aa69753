"""Tests of the CPU kernel of recurrent layers: `torch.nn`, gradients, the reference and chunks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrent_arguments import (
    CELLS,
    arguments,
    assert_same,
    leaves_of,
    make_call,
    with_gradients,
    with_module,
)

from elmo.kernels import recurrent_cpu, recurrent_reference


@pytest.mark.parametrize("cell", CELLS)
def test_cpu_kernel_equals_torch_module_in_results_and_gradients(cell):
    tensors = arguments(cell)
    assert_same(with_gradients(recurrent_cpu.run, cell, tensors), with_module(cell, tensors))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_cpu_kernel_gradients_match_finite_differences(cell, masked):
    tensors = arguments(cell, steps=3, batch=2, dim=2, hidden=3, masked=masked)
    names = [name for name, value in tensors.items() if value is not None and name != "state_mask"]

    def call(*values):
        replaced = {**tensors, **dict(zip(names, values, strict=True))}
        result = recurrent_cpu.run(make_call(cell, replaced))
        return (result.output, result.h) if result.c is None else (result.output, result.c)

    assert torch.autograd.gradcheck(call, [tensors[name].requires_grad_() for name in names])


@settings(max_examples=60)
@given(
    cell=st.sampled_from(CELLS),
    masked=st.booleans(),
    steps=st.integers(1, 6),
    batch=st.integers(1, 5),
    dim=st.integers(1, 5),
    hidden=st.integers(1, 7),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_cpu_kernel_equals_reference_for_any_shape(cell, masked, steps, batch, dim, hidden, dtype):
    tensors = arguments(cell, steps, batch, dim, hidden, dtype, masked)
    # relu states and their gradients can grow.
    atol, rtol = (1e-12, 0) if dtype == torch.float64 else (1e-5, 1e-4)
    expected = with_gradients(recurrent_reference.run, cell, tensors)
    assert_same(with_gradients(recurrent_cpu.run, cell, tensors), expected, atol, rtol)
    with torch.no_grad():
        result = recurrent_cpu.run(make_call(cell, tensors))
    torch.testing.assert_close(result.output, expected["output"], rtol=rtol, atol=atol)
    torch.testing.assert_close(result.h, expected["final h"], rtol=rtol, atol=atol)
    if result.c is not None:
        torch.testing.assert_close(result.c, expected["final c"], rtol=rtol, atol=atol)


@pytest.mark.parametrize("cell", CELLS)
def test_cpu_kernel_without_gradients_in_chunks_equals_one_chunk(cell, monkeypatch):
    call = make_call(cell, arguments(cell, steps=7, masked=True))
    with torch.no_grad():
        expected = recurrent_cpu.run(call)
        for values in (1, 200):
            monkeypatch.setattr(recurrent_cpu, "CHUNK_VALUES", values)
            result = recurrent_cpu.run(call)
            torch.testing.assert_close(result.output, expected.output, rtol=0, atol=1e-12)
            torch.testing.assert_close(result.h, expected.h, rtol=0, atol=1e-12)
            torch.testing.assert_close(result.c, expected.c, rtol=0, atol=1e-12)


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [1, 3])
def test_cpu_kernel_does_not_change_its_arguments(cell, with_gradient, batch):
    tensors = arguments(cell, batch=batch, masked=True)
    leaves = leaves_of(tensors) if with_gradient else tensors
    before = {name: None if value is None else value.clone() for name, value in tensors.items()}
    with torch.set_grad_enabled(with_gradient):
        result = recurrent_cpu.run(make_call(cell, leaves))
        if with_gradient:
            d_c = None if result.c is None else torch.ones_like(result.c)
            outputs = [value for value in (result.output, result.c) if value is not None]
            ones = [torch.ones_like(value) for value in outputs]
            torch.autograd.backward(outputs, ones)
            assert all(bool((value == 1).all()) for value in ones)
            assert d_c is None or bool((d_c == 1).all())
    for name, value in before.items():
        assert value is None or torch.equal(leaves[name].detach(), value), name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("used", ["output", "h", "c"])
def test_gradients_of_a_single_result_equal_the_reference(cell, used):
    if used == "c" and not cell.startswith("lstm"):
        pytest.skip("no cell state")
    gradients = []
    for run in (recurrent_cpu.run, recurrent_reference.run):
        leaves = leaves_of(arguments(cell))
        getattr(run(make_call(cell, leaves)), used).square().sum().backward()
        gradients.append({k: leaf.grad for k, leaf in leaves.items() if leaf is not None})
    zeros = {k: torch.zeros_like(leaves[k]) for k, v in gradients[1].items() if v is None}
    assert_same(*({k: zeros.get(k) if v is None else v for k, v in g.items()} for g in gradients))


@pytest.mark.parametrize("cell", CELLS)
def test_second_backward_pass_of_a_kept_graph_has_the_same_gradients(cell):
    leaves = leaves_of(arguments(cell))
    loss = recurrent_cpu.run(make_call(cell, leaves)).output.square().sum()
    named = {name: leaf for name, leaf in leaves.items() if leaf is not None}
    first = torch.autograd.grad(loss, list(named.values()), retain_graph=True)
    second = torch.autograd.grad(loss, list(named.values()))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("cell", CELLS)
def test_state_carried_between_segments_gives_the_results_of_one_segment(cell):
    tensors = arguments(cell, steps=6)
    expected = with_gradients(recurrent_cpu.run, cell, tensors)

    def in_two_segments(call):
        first = recurrent_cpu.run(make_call(cell, {**vars_of(call), "x": call.x[:2]}))
        rest = {**vars_of(call), "x": call.x[2:], "h": first.h, "c": first.c}
        second = recurrent_cpu.run(make_call(cell, rest))
        output = torch.cat([first.output, second.output])
        return type(second)(output, second.h, second.c)

    assert_same(with_gradients(in_two_segments, cell, tensors), expected)


def vars_of(call):
    """Return the tensors of a call by name."""
    names = ("x", "h", "c", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    return {name: getattr(call, name) for name in names}


def test_cpu_kernel_computes_only_requested_gradients():
    tensors = arguments("lstmp")
    tensors["weight_hh"].requires_grad_()
    recurrent_cpu.run(make_call("lstmp", tensors)).output.sum().backward()
    assert tensors["weight_hh"].grad is not None
    assert all(value.grad is None for name, value in tensors.items() if name != "weight_hh")


def test_changing_the_output_in_place_before_the_backward_pass_is_an_error():
    result = recurrent_cpu.run(make_call("gru", leaves_of(arguments("gru"))))
    loss = result.output.square().sum()
    with torch.no_grad():
        result.output.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_cpu_kernel_supports_only_plain_calls_of_one_dtype():
    tensors = arguments("lstm", masked=True)
    assert recurrent_cpu.can_run(make_call("lstm", tensors))
    assert not recurrent_cpu.can_run(make_call("lstm", {**tensors, "x": tensors["x"].float()}))
    half = {name: None if v is None else v.half() for name, v in tensors.items()}
    assert not recurrent_cpu.can_run(make_call("lstm", half))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not recurrent_cpu.can_run(make_call("lstm", tensors))
    tensors["state_mask"].requires_grad_()
    assert not recurrent_cpu.can_run(make_call("lstm", tensors))
