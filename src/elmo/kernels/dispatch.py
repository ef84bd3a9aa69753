"""Selects the implementation of an operation: the requested one, or the fastest one available.

Each kernel is a module that defines a function with the same name and signature as the reference
implementation. An operation whose inputs and weights need no gradient, such as a layer of a frozen
model in a training loop, runs as under `no_grad`, because kernels without gradients are faster.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from elmo.errors import ConfigError
from elmo.kernels import (
    characters_fused,
    characters_native,
    characters_reference,
    linear_native,
    lstm_cudnn,
    lstm_fused,
    lstm_native,
    lstm_reference,
)
from elmo.kernels.gradient_mode import no_grad_if_unneeded
from elmo.kernels.lstm_call import LSTMCall, LSTMResult


class Kernel(Protocol):
    """Interface of a module that implements a fast LSTM kernel."""

    NEEDS: str
    """Requirements of the kernel, inserted after "needs" in an error message."""

    def can_run(self, directions: Sequence[LSTMCall]) -> bool:
        """Whether the kernel supports the call."""
        ...

    def lstm(self, directions: Sequence[LSTMCall]) -> list[LSTMResult]:
        """Run a layer in all given directions."""
        ...


# Fastest first: `auto` uses the first kernel that can run a call, else the reference.
FAST: dict[str, Kernel] = {
    "fused": lstm_fused,
    "cudnn": lstm_cudnn,
    "native": lstm_native,
}


def lstm(directions: Sequence[LSTMCall], kernel: str = "auto") -> list[LSTMResult]:
    """Run a layer in all given directions, each with its own weights and state.

    Args:
        directions: Layer, input and state of each direction.
        kernel: Name of a fast kernel, "reference", or "auto" for the fastest kernel that supports
            the call.

    Raises:
        ConfigError: The kernel is unknown or does not support the call.
    """
    with no_grad_if_unneeded(tensor for call in directions for tensor in call.tensors()):
        return _run_lstm(directions, kernel)


def _run_lstm(directions: Sequence[LSTMCall], kernel: str) -> list[LSTMResult]:
    if kernel == "auto":
        for fast in FAST.values():
            if fast.can_run(directions):
                return fast.lstm(directions)
    elif kernel in FAST:
        if not FAST[kernel].can_run(directions):
            raise ConfigError(
                f"Kernel {kernel!r} needs {FAST[kernel].NEEDS}. Use auto or reference instead."
            )
        return FAST[kernel].lstm(directions)
    elif kernel != "reference":
        known = ", ".join(["auto", *FAST, "reference"])
        raise ConfigError(f"Unknown kernel {kernel!r}. Expected one of: {known}")
    return lstm_reference.lstm(directions)


def convolve_and_pool(
    characters: Tensor,
    table: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    kernel: str = "auto",
) -> Tensor:
    """Return the maximum of each filter over the positions of each word.

    See `characters_reference.convolve_and_pool`.
    """
    with no_grad_if_unneeded((table, *weights, *biases)):
        if kernel != "reference" and characters_fused.can_run(characters, table, weights):
            return characters_fused.convolve_and_pool(characters, table, weights, biases)
        if kernel != "reference" and characters_native.can_run(characters, table, weights):
            return characters_native.convolve_and_pool(characters, table, weights, biases)
        return characters_reference.convolve_and_pool(characters, table, weights, biases)


def linear(x: Tensor, weight: Tensor, bias: Tensor, kernel: str = "auto") -> Tensor:
    """Return `x weightᵀ + bias`, like `functional.linear`.

    Args:
        x: Input, (rows, k).
        weight: Weight, (n, k).
        bias: Bias, (n,).
        kernel: Name of the implementation.

    Returns:
        Output, (rows, n).
    """
    with no_grad_if_unneeded((x, weight, bias)):
        if kernel != "reference" and linear_native.can_run(x, weight, bias):
            return linear_native.linear(x, weight, bias)
        return functional.linear(x, weight, bias)


def highway(x: Tensor, weight: Tensor, bias: Tensor, kernel: str = "auto") -> Tensor:
    """Return the output of a highway layer: `gate * relu(transform) + (1 - gate) * x`.

    The native kernels compute in the precision set by `compute_precision.computing_in`.

    Args:
        x: Input, (rows, dim).
        weight: Weights of the transform, followed by those of the gate, (2 * dim, dim).
        bias: Biases of the transform, followed by those of the gate, (2 * dim,).
        kernel: Name of the implementation.

    Returns:
        Output, (rows, dim).
    """
    with no_grad_if_unneeded((x, weight, bias)):
        if kernel != "reference" and linear_native.can_run_highway(x, weight, bias):
            return linear_native.highway(x, weight, bias)
        transform, gate = functional.linear(x, weight, bias).chunk(2, dim=-1)
        return torch.lerp(x, transform.relu().to(x.dtype), gate.sigmoid().to(x.dtype))
