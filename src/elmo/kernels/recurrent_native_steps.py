"""Elementwise part of recurrent layers on a CPU in C: one call per step, float32 only.

PyTorch reads and writes all gates in each of five to eight operations per step, and its tanh takes
several times as long as that of the native library.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from elmo.kernels.native_ffi import can_compute
from elmo.kernels.native_library import library
from elmo.kernels.recurrent_cpu_steps import (
    BackwardFunction,
    CellFunction,
    GRUSteps,
    LSTMSteps,
    RNNSteps,
    StepValues,
)


def can_run(dtype: torch.dtype) -> bool:
    """Whether the native library is available and supports the dtype."""
    return dtype == torch.float32 and can_compute("float32")


@cache
def _function(name: str, n_arrays: int) -> Callable[..., None]:
    """Return a function of the native library whose arguments are a size and addresses."""
    loaded = library()
    assert loaded is not None
    signature = ctypes.CFUNCTYPE(None, ctypes.c_long, *[ctypes.c_void_p] * n_arrays)
    return signature((name, loaded))


def _addresses(values: Tensor, n: int) -> list[int]:
    """Return the addresses of n values, or n times the same one if there is only one.

    Args:
        values: Contiguous tensor whose first dimension are the values.
        n: Number of addresses.
    """
    size = 0 if len(values) == 1 else values[0].numel() * values.element_size()
    first = values.data_ptr()
    return [first + number * size for number in range(n)]


class NativeRNNSteps(RNNSteps):
    """Loops of an RNN, with tanh in C."""

    def activate(self, h: Tensor) -> None:
        """Apply the activation function in place."""
        if self.is_tanh:
            _function("rnn_tanh_step", 1)(h.numel(), h.data_ptr())
        else:
            h.relu_()


class NativeGRUSteps(GRUSteps):
    """Loops of a GRU, with the elementwise part in C."""

    def forward_cell(self, states: Tensor, gates: Tensor) -> CellFunction:
        """Return a function that computes gates and new state of a step after the product."""
        step, n, n_steps = _function("gru_step", 3), states[0].numel(), len(gates)
        h, gates_at = _addresses(states, n_steps + 1), _addresses(gates, n_steps)

        def compute(t: int) -> None:
            step(n, gates_at[t], h[t], h[t + 1])

        return compute

    def backward_cell(self, values: StepValues, d_states: Tensor, d_gates: Tensor) -> CellFunction:
        """Return a function that computes the gradients of the gates of a step."""
        step, n, n_steps = _function("gru_step_backward", 5), d_states[0].numel(), len(d_gates)
        gates, d_gates_at = _addresses(values.gates, n_steps), _addresses(d_gates, n_steps)
        h, d_h = _addresses(values.states, n_steps + 1), _addresses(d_states, n_steps + 1)

        def compute(t: int) -> None:
            step(n, gates[t], h[t], d_h[t + 1], d_h[t], d_gates_at[t])

        return compute


class NativeLSTMSteps(LSTMSteps):
    """Loops of an LSTM, with the elementwise part in C."""

    def forward_cell(
        self, gates: Tensor, cells: Tensor, tanh_cells: Tensor | None, outputs: Tensor
    ) -> CellFunction:
        """Return a function that computes gates, cell and output of a step after the product."""
        step, n, n_steps = _function("lstm_step", 5), cells[0].numel(), len(gates)
        gates_at, out = _addresses(gates, n_steps), _addresses(outputs, n_steps)
        c = _addresses(cells, n_steps + 1)
        # Without gradients, tanh overwrites the input gate.
        tanh_c = gates_at if tanh_cells is None else _addresses(tanh_cells, n_steps)

        def compute(t: int) -> None:
            step(n, gates_at[t], c[t], c[t + 1], tanh_c[t], out[t])

        return compute

    def backward_cell(self, values: StepValues, d_gates: Tensor, d_c: Tensor) -> BackwardFunction:
        """Return a function that computes the gradients of the gates of a step."""
        assert values.cells is not None
        assert values.tanh_cells is not None
        step, n, n_steps = _function("lstm_step_backward", 6), d_c.numel(), len(d_gates)
        gates, d_gates_at = _addresses(values.gates, n_steps), _addresses(d_gates, n_steps)
        c, tanh_c = _addresses(values.cells, n_steps), _addresses(values.tanh_cells, n_steps)
        d_c_at = d_c.data_ptr()

        def compute(t: int, d_out: Tensor) -> None:
            step(n, gates[t], c[t], tanh_c[t], d_out.data_ptr(), d_c_at, d_gates_at[t])

        return compute
