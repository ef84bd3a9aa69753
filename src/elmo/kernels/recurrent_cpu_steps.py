"""Loops over the steps of a recurrent layer, forward and backward, for the CPU kernel.

All values are (features, batch) at each step: BLAS is fastest for wide weights times few columns,
and the gates are contiguous blocks. The loops contain the recurrent product and as few elementwise
operations as possible, all without allocation. What does not depend on the previous step of the
backward pass, such as the derivatives of the gates, is computed for all steps before its loop.

`recurrent_native_steps` replaces the elementwise operations by functions in C.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.kernels.recurrent_call import Activation

CellFunction = Callable[[int], None]
"""Function of the step, which is called after its product."""
BackwardFunction = Callable[[int, Tensor], None]
"""Function of the step and the gradient of its output, which is called before its product."""

# `derivative(gradient, output, grad_input=out)`; multiplies `gradient` with the derivative.
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
_through_tanh = torch.ops.aten.tanh_backward.grad_input
_through_relu = torch.ops.aten.threshold_backward.grad_input


class StepWeights(NamedTuple):
    """Weights that the loop reads.

    Attributes:
        weight_hh: Recurrent weights, (gates * hidden, output dim).
        bias_hh: Bias of the recurrent product, (gates * hidden,).
        weight_hr: Projection, (output dim, hidden), or None.
        state_mask: Factors of the state in the recurrent product, (output dim, batch), or None.
    """

    weight_hh: Tensor
    bias_hh: Tensor
    weight_hr: Tensor | None
    state_mask: Tensor | None


class StepValues(NamedTuple):
    """Values of all steps that the backward pass needs.

    Attributes:
        states: Initial hidden state, followed by those after each step,
            (time + 1, output dim, batch).
        gates: Gates after their activation functions, (time, rows, batch).
        cells: Initial cell state, followed by those after each step, (time + 1, hidden, batch).
            Only the last one without gradients. None for cell types without cell state.
        tanh_cells: tanh of the cell states, (time, hidden, batch), or None.
    """

    states: Tensor
    gates: Tensor
    cells: Tensor | None = None
    tanh_cells: Tensor | None = None

    def outputs_before_projection(self) -> Tensor:
        """Return `σ(o)·tanh(c')` of an LSTM, (time, hidden, batch)."""
        assert self.tanh_cells is not None
        return self.gates.chunk(4, dim=1)[3] * self.tanh_cells


class StepGradients(NamedTuple):
    """Gradients of all steps.

    Attributes:
        states: Gradients of `StepValues.states`; the first one is that of the initial state.
        gates: Gradients of the gates before their activation functions, (time, rows, batch).
        c: Gradient of the initial cell state, (hidden, batch), or None.
    """

    states: Tensor
    gates: Tensor
    c: Tensor | None = None


class Steps(ABC):
    """Loops of one cell type."""

    def __init__(self, weights: StepWeights) -> None:
        self.weight_hh, self.bias_hh, self.weight_hr, self.mask = weights

    def input_bias(self, bias_ih: Tensor) -> Tensor:
        """Return the sum of the biases that are added outside of the loop, (gates * hidden,)."""
        return bias_ih + self.bias_hh

    @abstractmethod
    def forward(self, inputs: Tensor, h: Tensor, c: Tensor | None, keep: bool) -> StepValues:
        """Run all steps.

        Args:
            inputs: Contribution of input and bias to the gates, (gates * hidden, time, batch).
            h: Initial hidden state, (output dim, batch).
            c: Initial cell state, (hidden, batch). Overwritten unless values are kept.
            keep: Whether to keep the values that the backward pass needs.
        """

    @abstractmethod
    def backward(self, values: StepValues, d_states: Tensor, d_c: Tensor | None) -> StepGradients:
        """Run all steps in reverse order.

        Args:
            values: Values that the forward pass kept.
            d_states: Gradients of the states without those through later steps, overwritten.
            d_c: Gradient of the final cell state, overwritten. None if there is no cell state.
        """

    def input_gradients(self, d_gates: Tensor) -> Tensor:
        """Return the gradients of `inputs`, given those of the gates, (rows, time * batch)."""
        return d_gates

    def recurrent_gradients(self, d_gates: Tensor) -> Tensor:
        """Return the gradients of the recurrent product, given those of the gates."""
        return d_gates

    def masked_state(self, h: Tensor, buffer: Tensor | None) -> Tensor:
        """Return the state as the recurrent product reads it, in the buffer if there is a mask."""
        return h if self.mask is None else torch.mul(h, self.mask, out=buffer)

    def add_state_gradient(
        self, d_h: Tensor, weight: Tensor, d_product: Tensor, buffer: Tensor | None
    ) -> None:
        """Add the gradient through the recurrent product to `d_h`.

        Args:
            d_h: Gradient of the state, (output dim, batch).
            weight: Transposed recurrent weights, (output dim, gates * hidden).
            d_product: Gradient of the recurrent product, (gates * hidden, batch).
            buffer: Buffer of the shape of `d_h`. Needed only with a mask.
        """
        if self.mask is None:
            d_h.addmm_(weight, d_product)
        else:
            d_h.addcmul_(torch.mm(weight, d_product, out=buffer), self.mask)

    def _mask_buffer(self) -> Tensor | None:
        return None if self.mask is None else torch.empty_like(self.mask)


class RNNSteps(Steps):
    """Loops of an RNN with tanh or relu."""

    def __init__(self, weights: StepWeights, activation: Activation) -> None:
        super().__init__(weights)
        self.is_tanh = activation == "tanh"

    def forward(self, inputs: Tensor, h: Tensor, c: Tensor | None, keep: bool) -> StepValues:
        """Compute `h' = tanh(inputs + W h)`, or with relu."""
        _, n_steps, batch = inputs.shape
        values = inputs.new_empty(n_steps + 1, len(h), batch)
        values[0] = h
        values[1:] = inputs.transpose(0, 1)
        states = values.unbind()
        buffer = self._mask_buffer()
        for h, new_h in pairwise(states):
            self.activate(new_h.addmm_(self.weight_hh, self.masked_state(h, buffer)))
        return StepValues(values, values[1:])

    def activate(self, h: Tensor) -> None:
        """Apply the activation function in place."""
        if self.is_tanh:
            h.tanh_()
        else:
            h.relu_()

    def backward(self, values: StepValues, d_states: Tensor, d_c: Tensor | None) -> StepGradients:
        """Run all steps in reverse order."""
        d_gates = torch.empty_like(values.gates)
        weight, buffer = self.weight_hh.t().contiguous(), self._mask_buffer()
        d_h, d_totals, states = d_states.unbind(), d_gates.unbind(), values.gates.unbind()
        for t in reversed(range(len(states))):
            if self.is_tanh:
                _through_tanh(d_h[t + 1], states[t], grad_input=d_totals[t])
            else:
                _through_relu(d_h[t + 1], states[t], 0, grad_input=d_totals[t])
            self.add_state_gradient(d_h[t], weight, d_totals[t], buffer)
        return StepGradients(d_states, d_gates)


class GRUSteps(Steps):
    """Loops of a GRU.

    The gates are stored in the order candidate n, reset r, update z, recurrent part u of the
    candidate, so that the inputs (n, r, z) and the recurrent product (r, z, u) are contiguous.
    """

    def input_bias(self, bias_ih: Tensor) -> Tensor:
        """Return the sum of the biases without that of u, which is multiplied by r."""
        bias = bias_ih.clone()
        hidden = len(bias) // 3
        bias[: 2 * hidden] += self.bias_hh[: 2 * hidden]
        return bias

    def forward(self, inputs: Tensor, h: Tensor, c: Tensor | None, keep: bool) -> StepValues:
        """Compute `n = tanh(inputs + r·u)` and `h' = (1 - z)·n + z·h`."""
        hidden, (_, n_steps, batch) = len(h), inputs.shape
        gates = inputs.new_empty(n_steps, 4 * hidden, batch)
        gates[:, :hidden] = inputs[2 * hidden :].transpose(0, 1)
        gates[:, hidden : 3 * hidden] = inputs[: 2 * hidden].transpose(0, 1)
        gates[:, 3 * hidden :] = self.bias_hh[2 * hidden :].unsqueeze(1)
        values = inputs.new_empty(n_steps + 1, hidden, batch)
        values[0] = h
        states = values.unbind()
        products, buffer = gates[:, hidden:].unbind(), self._mask_buffer()
        compute_cell = self.forward_cell(values, gates)
        for t in range(n_steps):
            products[t].addmm_(self.weight_hh, self.masked_state(states[t], buffer))
            compute_cell(t)
        return StepValues(values, gates)

    def forward_cell(self, states: Tensor, gates: Tensor) -> CellFunction:
        """Return a function that computes gates and new state of a step after the product."""
        hidden, steps = states.shape[1], states.unbind()
        sigmoids = gates[:, hidden : 3 * hidden].unbind()
        n, r, z, u = (part.unbind() for part in gates.chunk(4, dim=1))

        def compute(t: int) -> None:
            sigmoids[t].sigmoid_()
            n[t].addcmul_(r[t], u[t]).tanh_()
            torch.lerp(n[t], steps[t], z[t], out=steps[t + 1])

        return compute

    def backward(self, values: StepValues, d_states: Tensor, d_c: Tensor | None) -> StepGradients:
        """Run all steps in reverse order."""
        d_gates = torch.empty_like(values.gates)
        compute_cell = self.backward_cell(values, d_states, d_gates)
        weight, buffer = self.weight_hh.t().contiguous(), self._mask_buffer()
        d_h, products = d_states.unbind(), d_gates[:, values.states.shape[1] :].unbind()
        for t in reversed(range(len(products))):
            compute_cell(t)
            self.add_state_gradient(d_h[t], weight, products[t], buffer)
        return StepGradients(d_states, d_gates)

    def backward_cell(self, values: StepValues, d_states: Tensor, d_gates: Tensor) -> CellFunction:
        """Return a function that computes the gradients of the gates of a step.

        It adds the gradient through the update gate to that of the previous state.
        """
        # Derivatives of the new state with respect to the gates before their activation functions.
        n, r, z, u = values.gates.chunk(4, dim=1)
        d_n, d_r, d_z, d_u = d_gates.chunk(4, dim=1)
        _through_tanh(torch.rsub(z, 1), n, grad_input=d_n)
        torch.mul(d_n, r, out=d_u)
        _through_sigmoid(d_n * u, r, grad_input=d_r)
        _through_sigmoid(values.states[:-1] - n, z, grad_input=d_z)
        d_h, update, blocks = d_states.unbind(), z.unbind(), d_gates.view(-1, 4, *n.shape[1:])
        gradients = blocks.unbind()

        def compute(t: int) -> None:
            gradients[t].mul_(d_h[t + 1])
            d_h[t].addcmul_(d_h[t + 1], update[t])

        return compute

    def input_gradients(self, d_gates: Tensor) -> Tensor:
        """Return the gradients of r, z and n."""
        hidden = len(d_gates) // 4
        return torch.cat([d_gates[hidden : 3 * hidden], d_gates[:hidden]])

    def recurrent_gradients(self, d_gates: Tensor) -> Tensor:
        """Return the gradients of r, z and u."""
        return d_gates[len(d_gates) // 4 :]


class LSTMSteps(Steps):
    """Loops of an LSTM, with or without projection."""

    def forward(self, inputs: Tensor, h: Tensor, c: Tensor | None, keep: bool) -> StepValues:
        """Compute `c' = σ(f)·c + σ(i)·tanh(g)` and `h' = W_hr (σ(o)·tanh(c'))`."""
        assert c is not None
        (out, batch), hidden, n_steps = h.shape, len(c), inputs.shape[1]
        gates = inputs.transpose(0, 1).contiguous()
        values = inputs.new_empty(n_steps + 1, out, batch)
        values[0] = h
        cells, tanh_cells = c.unsqueeze(0), None
        if keep:
            cells = inputs.new_empty(n_steps + 1, hidden, batch)
            cells[0] = c
            tanh_cells = inputs.new_empty(n_steps, hidden, batch)
        # Without a projection, the cells write the states.
        outputs = values[1:] if self.weight_hr is None else torch.empty_like(c).unsqueeze(0)
        compute_cell = self.forward_cell(gates, cells, tanh_cells, outputs)
        states, steps, buffer = values.unbind(), gates.unbind(), self._mask_buffer()
        for t in range(n_steps):
            steps[t].addmm_(self.weight_hh, self.masked_state(states[t], buffer))
            compute_cell(t)
            if self.weight_hr is not None:
                torch.mm(self.weight_hr, outputs[0], out=states[t + 1])
        return StepValues(values, gates, cells, tanh_cells)

    def forward_cell(
        self, gates: Tensor, cells: Tensor, tanh_cells: Tensor | None, outputs: Tensor
    ) -> CellFunction:
        """Return a function that computes gates, cell and output of a step after the product.

        Args:
            gates: Gates of all steps, (time, 4 * hidden, batch).
            cells: Cells before and after each step, or a single one that each step overwrites.
            tanh_cells: tanh of the cells after each step, or None if not kept.
            outputs: Outputs of all steps, or a single one that each step overwrites.
        """
        n_steps, hidden = len(gates), cells.shape[1]
        i_f = gates[:, : 2 * hidden].unbind()
        i, f, g, o = (part.unbind() for part in gates.chunk(4, dim=1))
        c, out = _for_each(n_steps + 1, cells), _for_each(n_steps, outputs)
        tanh_c = i if tanh_cells is None else tanh_cells.unbind()

        def compute(t: int) -> None:
            i_f[t].sigmoid_()
            new_c = torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t].tanh_())
            torch.mul(o[t].sigmoid_(), torch.tanh(new_c, out=tanh_c[t]), out=out[t])

        return compute

    def backward(self, values: StepValues, d_states: Tensor, d_c: Tensor | None) -> StepGradients:
        """Run all steps in reverse order."""
        assert d_c is not None
        d_gates = torch.empty_like(values.gates)
        projection, d_hidden = self.weight_hr, torch.empty_like(d_c)
        if projection is not None:
            projection = projection.t().contiguous()
        compute_cell = self.backward_cell(values, d_gates, d_c)
        weight, buffer = self.weight_hh.t().contiguous(), self._mask_buffer()
        d_h, steps = d_states.unbind(), d_gates.unbind()
        for t in reversed(range(len(steps))):
            d_out = d_h[t + 1]
            if projection is not None:
                d_out = torch.mm(projection, d_out, out=d_hidden)
            compute_cell(t, d_out)
            self.add_state_gradient(d_h[t], weight, steps[t], buffer)
        return StepGradients(d_states, d_gates, d_c)

    def backward_cell(self, values: StepValues, d_gates: Tensor, d_c: Tensor) -> BackwardFunction:
        """Return a function that computes the gradients of the gates of a step.

        It replaces the gradient of the new cell in `d_c` by that of the previous cell.
        """
        assert values.cells is not None
        assert values.tanh_cells is not None
        # Derivatives with respect to the gates before their activation functions: of the new cell
        # for i, f and g, of the output for o.
        i, f, g, o = values.gates.chunk(4, dim=1)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=1)
        _through_sigmoid(g, i, grad_input=d_i)
        _through_sigmoid(values.cells[:-1], f, grad_input=d_f)
        _through_tanh(i, g, grad_input=d_g)
        _through_sigmoid(values.tanh_cells, o, grad_input=d_o)
        by_cell = d_gates.view(-1, 4, *i.shape[1:])[:, :3].unbind()
        by_output, forget = d_o.unbind(), f.unbind()
        output_by_cell = torch.ops.aten.tanh_backward(o, values.tanh_cells).unbind()

        def compute(t: int, d_out: Tensor) -> None:
            d_c.addcmul_(d_out, output_by_cell[t])
            by_cell[t].mul_(d_c)
            by_output[t].mul_(d_out)
            d_c.mul_(forget[t])

        return compute


def _for_each(n: int, values: Tensor) -> Sequence[Tensor]:
    """Return n values, or n times the same one if there is only one."""
    return (values[0],) * n if len(values) == 1 else values.unbind()
