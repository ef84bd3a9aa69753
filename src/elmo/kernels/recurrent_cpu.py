"""Recurrent layers of language models on a CPU, with forward and backward pass over all steps.

Autograd would compute the gradient of each weight at each step and add them up. Here the loop over
the steps (`recurrent_cpu_steps`) contains the recurrent product only: the inputs are multiplied in
one product before it, and the gradient of each weight is one product after it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo.kernels import recurrent_native_steps, recurrent_reference
from elmo.kernels.recurrent_call import Activation, Cell, RecurrentCall, RecurrentResult
from elmo.kernels.recurrent_cpu_steps import (
    GRUSteps,
    LSTMSteps,
    RNNSteps,
    StepGradients,
    Steps,
    StepValues,
    StepWeights,
)
from elmo.kernels.recurrent_native_steps import NativeGRUSteps, NativeLSTMSteps, NativeRNNSteps

NEEDS = (
    "float32 or float64 tensors of one dtype on the CPU without autocast, a state mask without "
    "gradient, no Mogrifier gates and no recorded gates"
)

# Without gradients, the gates of a chunk of steps are computed in one product. A chunk has at most
# this many values (4 MiB in float32), so that a text of any length fits in memory.
CHUNK_VALUES = 2**20
# Rows for which the calls of PyTorch take longer than the products of a single step.
SMALL_BATCH = 4


def can_run(call: RecurrentCall) -> bool:
    """Whether this kernel supports the call."""
    dtype = call.x.dtype
    return (
        not call.mogrifier
        and dtype in (torch.float32, torch.float64)
        and all(tensor.dtype == dtype and tensor.is_cpu for tensor in call.tensors())
        and (call.state_mask is None or not call.state_mask.requires_grad)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def run(call: RecurrentCall) -> RecurrentResult:
    """Run the layer over all time steps; see `recurrent_reference.run`."""
    if not torch.is_grad_enabled():
        if len(call.x) == 1 and len(call.h) <= SMALL_BATCH and call.state_mask is None:
            return _run_single_step(call)
        return _run_without_gradients(call)
    output, h, c = _RecurrentFunction.apply(  # type: ignore[no-untyped-call]
        call.cell, call.activation, *_arguments(call)
    )
    return RecurrentResult(output, h, c)


def _run_single_step(call: RecurrentCall) -> RecurrentResult:
    """Run one step without gradients, as in sampling, with few calls of PyTorch."""
    if call.cell == "lstmp":  # not supported by `torch.lstm_cell`
        return recurrent_reference.run(call)
    x, h = call.x[0], call.h
    weights = (call.weight_ih, call.weight_hh, call.bias_ih, call.bias_hh)
    c = None
    if call.c is not None:
        h, c = torch.lstm_cell(x, (h, call.c), *weights)
    elif call.cell == "gru":
        h = torch.gru_cell(x, h, *weights)
    else:
        function = torch.rnn_tanh_cell if call.activation == "tanh" else torch.rnn_relu_cell
        h = function(x, h, *weights)
    return RecurrentResult(h.unsqueeze(0), h, c)


def _run_without_gradients(call: RecurrentCall) -> RecurrentResult:
    n_steps, batch, _ = call.x.shape
    steps = make_steps(call.cell, call.activation, _step_weights(call))
    bias = steps.input_bias(call.bias_ih).unsqueeze(1)
    h, c = call.h.t(), None if call.c is None else _transposed_copy(call.c)
    chunk = max(1, CHUNK_VALUES // (batch * len(bias)))
    outputs: list[Tensor] = []
    for start in range(0, n_steps, chunk):
        inputs = _input_gates(call.x[start : start + chunk], call.weight_ih, bias)
        states = steps.forward(inputs, h, c, keep=False).states
        outputs.append(states[1:].transpose(1, 2))
        h = states[-1]
    output = outputs[0].contiguous() if len(outputs) == 1 else torch.cat(outputs)
    return RecurrentResult(output, output[-1].clone(), None if c is None else c.t().contiguous())


def _input_gates(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the contribution of the input to the gates, (gates * hidden, time, batch)."""
    return torch.addmm(bias, weight, x.flatten(0, 1).t()).view(-1, *x.shape[:2])


def _columns(rows: Tensor | None) -> Tensor | None:
    """Return a contiguous transposed matrix, (features, batch)."""
    return None if rows is None else rows.t().contiguous()


def _transposed_copy(matrix: Tensor) -> Tensor:
    """Return a contiguous transposed matrix that shares no memory with the original."""
    return matrix.t().clone(memory_format=torch.contiguous_format)


class _Arguments(NamedTuple):
    """Tensors of a call."""

    x: Tensor
    h: Tensor
    c: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    weight_hr: Tensor | None
    state_mask: Tensor | None


def _arguments(call: RecurrentCall) -> _Arguments:
    return _Arguments(*(getattr(call, name) for name in _Arguments._fields))


def make_steps(cell: Cell, activation: Activation, weights: StepWeights) -> Steps:
    """Return the loops of a cell type, in C where possible.

    Args:
        cell: Cell type.
        activation: Activation function of an RNN.
        weights: Weights, of a dtype that the CPU kernel supports.
    """
    is_native = recurrent_native_steps.can_run(weights.weight_hh.dtype)
    if cell == "rnn":
        return (NativeRNNSteps if is_native else RNNSteps)(weights, activation)
    if cell == "gru":
        return (NativeGRUSteps if is_native else GRUSteps)(weights)
    return (NativeLSTMSteps if is_native else LSTMSteps)(weights)


def _step_weights(call: RecurrentCall | _Arguments) -> StepWeights:
    mask = None if call.state_mask is None else call.state_mask.t().contiguous()
    return StepWeights(call.weight_hh, call.bias_hh, call.weight_hr, mask)


class _RecurrentFunction(torch.autograd.Function):
    """The layer as one operation of autograd."""

    @staticmethod
    def forward(ctx: Any, cell: Cell, activation: Activation, *tensors: Any) -> Any:
        call = _Arguments(*tensors)
        steps = make_steps(cell, activation, _step_weights(call))
        bias = steps.input_bias(call.bias_ih).unsqueeze(1)
        inputs = _input_gates(call.x, call.weight_ih, bias)
        values = steps.forward(inputs, call.h.t(), _columns(call.c), keep=True)
        # A copy even if the batch has one row, so that users can change the output in place.
        states = values.states[1:].transpose(1, 2)
        output = states.clone(memory_format=torch.contiguous_format)
        ctx.cell, ctx.activation = cell, activation
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, output, *values)
        last_c = None if values.cells is None else _transposed_copy(values.cells[-1])
        return output, output[-1].clone(), last_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_output: Tensor | None, d_h: Tensor | None, d_c: Tensor | None) -> Any:
        n_arguments = len(_Arguments._fields)
        call = _Arguments(*ctx.saved_tensors[:n_arguments])
        output, *saved = ctx.saved_tensors[n_arguments:]
        steps = make_steps(ctx.cell, ctx.activation, _step_weights(call))
        values = StepValues(*saved)
        d_states = torch.zeros_like(values.states)
        if d_output is not None:
            d_states[1:] = d_output.transpose(1, 2)
        if d_h is not None:
            d_states[-1] += d_h.t()
        if d_c is not None:
            d_c = _transposed_copy(d_c)
        elif values.cells is not None:
            d_c = torch.zeros_like(values.cells[0])
        gradients = steps.backward(values, d_states, d_c)
        needed = dict(zip(_Arguments._fields, ctx.needs_input_grad[2:], strict=True))
        results = _argument_gradients(call, steps, output, values, gradients, needed)
        return None, None, *(results.get(name) for name in _Arguments._fields)


def _argument_gradients(
    call: _Arguments,
    steps: Steps,
    output: Tensor,
    values: StepValues,
    gradients: StepGradients,
    needed: Mapping[str, bool],
) -> dict[str, Tensor | None]:
    """Return the needed gradients by name, with one product for each weight."""
    d_gates = gradients.gates.transpose(0, 1).flatten(1)  # (rows, time * batch)
    d_inputs, d_products = steps.input_gradients(d_gates), steps.recurrent_gradients(d_gates)
    results: dict[str, Tensor | None] = {"h": gradients.states[0].t()}
    if gradients.c is not None:
        results["c"] = gradients.c.t()
    if needed["x"]:
        results["x"] = (d_inputs.t() @ call.weight_ih).view_as(call.x)
    if needed["weight_ih"]:
        results["weight_ih"] = d_inputs @ call.x.flatten(0, 1)
    if needed["bias_ih"]:
        results["bias_ih"] = d_inputs.sum(1)
    if needed["weight_hh"]:
        previous = torch.cat([call.h.unsqueeze(0), output[:-1]])
        if call.state_mask is not None:
            previous *= call.state_mask
        results["weight_hh"] = d_products @ previous.flatten(0, 1)
    if needed["bias_hh"]:
        results["bias_hh"] = d_products.sum(1)
    if needed["weight_hr"]:
        hidden = values.outputs_before_projection().transpose(0, 1).flatten(1)
        results["weight_hr"] = gradients.states[1:].transpose(0, 1).flatten(1) @ hidden.t()
    return results
