"""Tests of the reference of recurrent layers: `torch.nn`, masks, Mogrifier gates and recording."""

import math

import pytest
import torch
from recurrent_arguments import (
    BATCH,
    CELLS,
    DIM,
    HIDDEN,
    STEPS,
    arguments,
    assert_same,
    cell_and_activation,
    make_call,
    with_gradients,
    with_module,
)

from elmo.errors import ConfigError, InputError
from elmo.kernels import recurrent_reference
from elmo.kernels.recurrent_call import MogrifierRound, RecurrentCall


@pytest.mark.parametrize("cell", CELLS)
def test_reference_equals_torch_module_in_results_and_gradients(cell):
    tensors = arguments(cell)
    assert_same(with_gradients(recurrent_reference.run, cell, tensors), with_module(cell, tensors))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def product(weight, vector, bias):
    """Return a matrix-vector product with bias, from Python numbers."""
    return [
        sum(w * v for w, v in zip(row, vector, strict=True)) + b
        for row, b in zip(weight.tolist(), vector_or_zeros(bias, len(weight)), strict=True)
    ]


def vector_or_zeros(bias, n):
    return [0.0] * n if bias is None else bias.tolist()


def run_row_in_plain_python(cell, tensors, row, mogrifier=()):
    """Compute one batch row with Python numbers, and return output and gates of each step."""
    kind, activation = cell_and_activation(cell)
    h = tensors["h"][row].tolist()
    c = None if tensors["c"] is None else tensors["c"][row].tolist()
    mask = [1.0] * len(h)
    if tensors.get("state_mask") is not None:
        mask = tensors["state_mask"][row].tolist()
    outputs, gates = [], []
    for x in tensors["x"][:, row].tolist():
        read = [a * b for a, b in zip(h, mask, strict=True)]
        for number, weight in enumerate(mogrifier):
            source, target = (read, x) if number % 2 == 0 else (x, read)
            scaled = [
                2 * sigmoid(a) * b
                for a, b in zip(product(weight, source, None), target, strict=True)
            ]
            x, read = (scaled, read) if number % 2 == 0 else (x, scaled)
        inputs = product(tensors["weight_ih"], x, tensors["bias_ih"])
        recurrent = product(tensors["weight_hh"], read, tensors["bias_hh"])
        n = HIDDEN
        if kind == "rnn":
            function = math.tanh if activation == "tanh" else lambda value: max(0.0, value)
            h = [function(a + b) for a, b in zip(inputs, recurrent, strict=True)]
            gates.append({})
        elif kind == "gru":
            r = [sigmoid(inputs[k] + recurrent[k]) for k in range(n)]
            z = [sigmoid(inputs[n + k] + recurrent[n + k]) for k in range(n)]
            new = [math.tanh(inputs[2 * n + k] + r[k] * recurrent[2 * n + k]) for k in range(n)]
            h = [(1 - z[k]) * new[k] + z[k] * h[k] for k in range(n)]
            gates.append({"reset": r, "update": z, "candidate": new})
        else:
            total = [a + b for a, b in zip(inputs, recurrent, strict=True)]
            i, f, g, o = (total[k * n : (k + 1) * n] for k in range(4))
            i, f, o = ([sigmoid(value) for value in gate] for gate in (i, f, o))
            g = [math.tanh(value) for value in g]
            c = [f[k] * c[k] + i[k] * g[k] for k in range(n)]
            h = [o[k] * math.tanh(c[k]) for k in range(n)]
            if kind == "lstmp":
                h = product(tensors["weight_hr"], h, None)
            gates.append({"input": i, "forget": f, "candidate": g, "output": o, "cell": c})
        outputs.append(h)
    return outputs, gates


def compare_with_plain_python(cell, tensors, mogrifier=(), rounds=()):
    call = make_call(cell, {**tensors, "mogrifier": rounds})
    result = recurrent_reference.run(call, record=True)
    for row in range(BATCH):
        outputs, gates = run_row_in_plain_python(cell, tensors, row, mogrifier)
        assert result.output[:, row].tolist() == [pytest.approx(h, abs=1e-12) for h in outputs]
        assert result.h[row].tolist() == pytest.approx(outputs[-1], abs=1e-12)
        assert result.gates.keys() == gates[0].keys()
        for name, values in result.gates.items():
            expected = [pytest.approx(step[name], abs=1e-12) for step in gates]
            assert values[:, row].tolist() == expected
        if result.c is not None:
            assert result.c[row].tolist() == pytest.approx(gates[-1]["cell"], abs=1e-12)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_reference_outputs_and_recorded_gates_follow_the_formula(cell, masked):
    compare_with_plain_python(cell, arguments(cell, masked=masked))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n_rounds", [1, 2, 5])
@pytest.mark.parametrize("rank", [None, 2])
def test_mogrifier_rounds_follow_the_formula(n_rounds, rank, masked):
    generator = torch.Generator().manual_seed(3)
    rounds, full = [], []
    for number in range(n_rounds):
        scaled, other = (DIM, HIDDEN) if number % 2 == 0 else (HIDDEN, DIM)
        left = torch.randn(scaled, rank or other, generator=generator, dtype=torch.float64)
        right = None
        if rank is not None:
            right = torch.randn(rank, other, generator=generator, dtype=torch.float64)
        rounds.append(MogrifierRound(left, right))
        full.append(left if right is None else left @ right)
    compare_with_plain_python("lstm", arguments("lstm", masked=masked), full, rounds)


def test_mogrifier_weights_receive_gradients():
    tensors = arguments("lstm")
    left = torch.randn(DIM, 2, dtype=torch.float64, requires_grad=True)
    right = torch.randn(2, HIDDEN, dtype=torch.float64, requires_grad=True)

    def output(left, right):
        call = make_call("lstm", {**tensors, "mogrifier": [MogrifierRound(left, right)]})
        return recurrent_reference.run(call).output

    assert torch.autograd.gradcheck(output, (left, right))


@pytest.mark.parametrize("cell", CELLS)
def test_reference_records_nothing_unless_asked(cell):
    assert recurrent_reference.run(make_call(cell, arguments(cell))).gates is None


@pytest.mark.parametrize("cell", CELLS)
def test_reference_under_autocast_keeps_the_cell_in_float32(cell):
    call = make_call(cell, arguments(cell, dtype=torch.float32))
    expected = recurrent_reference.run(call)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrent_reference.run(call)
    assert result.output.dtype == result.h.dtype == torch.bfloat16
    assert result.c is None or result.c.dtype == torch.float32
    torch.testing.assert_close(result.output.float(), expected.output, rtol=0, atol=0.05)


def test_call_rejects_an_input_without_steps():
    with pytest.raises(InputError, match=r"at least one step, but has the shape \(0, 3, 4\)"):
        make_call("gru", arguments("gru", steps=0))
    tensors = arguments("gru")
    with pytest.raises(InputError, match=r"must be \(time, batch, dim\)"):
        make_call("gru", {**tensors, "x": tensors["x"][0]})


@pytest.mark.parametrize(
    ("cell", "name", "value", "message"),
    [
        ("lstm", "c", None, r"c of a recurrent layer \(lstm\) must be \(3, 6\), but is None"),
        ("gru", "c", torch.zeros(BATCH, HIDDEN), r"c of a recurrent layer \(gru\) must be None"),
        ("rnn", "h", torch.zeros(BATCH + 1, HIDDEN), r"h .* must be \(3, 6\), .* \(4, 6\)"),
        ("lstm", "weight_ih", torch.zeros(4 * HIDDEN, DIM + 1), r"weight_ih .* \(24, 4\)"),
        ("lstmp", "weight_hr", None, r"weight_hh .*must be \(24, 6\)"),
        ("lstm", "state_mask", torch.zeros(BATCH, 1), r"state_mask .* must be \(3, 6\)"),
        ("gru", "weight_hh", torch.zeros(3 * HIDDEN + 1, HIDDEN), r"weight_hh .* \(18, 6\)"),
    ],
)
def test_call_rejects_tensors_that_do_not_match(cell, name, value, message):
    with pytest.raises(ConfigError, match=message):
        make_call(cell, {**arguments(cell), name: value})


def test_call_rejects_unknown_cells_and_options():
    tensors = arguments("gru")
    with pytest.raises(ConfigError, match=r"Unknown cell 'mgu'. Expected one of: rnn, gru, lstm"):
        RecurrentCall(cell="mgu", **tensors)
    with pytest.raises(ConfigError, match=r"Unknown activation 'elu'"):
        RecurrentCall(cell="gru", activation="elu", **tensors)
    with pytest.raises(ConfigError, match="Mogrifier gates need the cell 'lstm', not 'gru'"):
        RecurrentCall(cell="gru", mogrifier=[MogrifierRound(torch.zeros(DIM, HIDDEN))], **tensors)


def test_call_lists_all_differentiable_tensors():
    rounds = [MogrifierRound(torch.zeros(DIM, 1), torch.zeros(1, HIDDEN))]
    call = make_call("lstm", {**arguments("lstm", masked=True), "mogrifier": rounds})
    assert call.hidden_dim == HIDDEN
    assert len(call.x) == STEPS
    assert len(call.tensors()) == 7 + 1 + 2
