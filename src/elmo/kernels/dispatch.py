"""Which implementation of an operation runs: the one that is named, or the fastest that can.

A kernel is a module with the function of its reference, which is never the only one.
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
from elmo.kernels.lstm_call import LSTMCall, Walk


class Kernel(Protocol):
    """What the module of a fast kernel holds."""

    NEEDS: str
    """What a call must be for it, as the end of a sentence."""

    def can_run(self, directions: Sequence[LSTMCall]) -> bool:
        """Tell whether a call is such."""
        ...

    def lstm(self, directions: Sequence[LSTMCall]) -> list[Walk]:
        """Run a layer in all directions given."""
        ...


# Fastest first: `auto` takes the first that can run a call, and the reference where none can.
FAST: dict[str, Kernel] = {
    "fused": lstm_fused,
    "cudnn": lstm_cudnn,
    "native": lstm_native,
}


def lstm(directions: Sequence[LSTMCall], kernel: str = "auto") -> list[Walk]:
    """Run a layer in all directions given, each with its own weights and state.

    Args:
        directions: what is to be computed.
        kernel: name of the implementation; a `ConfigError` where it is unknown or cannot do it.
    """
    if kernel == "auto":
        for fast in FAST.values():
            if fast.can_run(directions):
                return fast.lstm(directions)
    elif kernel in FAST:
        if not FAST[kernel].can_run(directions):
            raise ConfigError(
                f"kernel is {kernel}, which needs {FAST[kernel].NEEDS}: take auto or reference"
            )
        return FAST[kernel].lstm(directions)
    elif kernel != "reference":
        known = ", ".join(["auto", *FAST, "reference"])
        raise ConfigError(f"kernel is {kernel!r}; known: {known}")
    return lstm_reference.lstm(directions)


def convolve_and_pool(
    characters: Tensor,
    table: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    kernel: str = "auto",
) -> Tensor:
    """Convolve the characters of words and give the maxima; see `characters_reference.convolve_and_pool`."""
    if kernel != "reference" and characters_fused.can_run(characters, table, weights):
        return characters_fused.convolve_and_pool(characters, table, weights, biases)
    if kernel != "reference" and characters_native.can_run(characters, table, weights):
        return characters_native.convolve_and_pool(characters, table, weights, biases)
    return characters_reference.convolve_and_pool(characters, table, weights, biases)


def linear(x: Tensor, weight: Tensor, bias: Tensor, kernel: str = "auto") -> Tensor:
    """Multiply rows with a matrix and add a bias, as `functional.linear` does.

    Args:
        x: (rows, k).
        weight: (n, k).
        bias: (n,).
        kernel: name of the implementation.
    """
    if kernel != "reference" and linear_native.can_run(x, weight, bias):
        return linear_native.linear(x, weight, bias)
    return functional.linear(x, weight, bias)


def highway(x: Tensor, weight: Tensor, bias: Tensor, kernel: str = "auto") -> Tensor:
    """Let a gate decide how much of each number of a row is replaced by what it is transformed to.

    A CPU multiplies in the arithmetic that is asked for around the call (`narrow.py`).

    Args:
        x: (rows, dim).
        weight: (2 * dim, dim): of the transform, then of the gate.
        bias: (2 * dim,).
        kernel: name of the implementation.
    """
    if kernel != "reference" and linear_native.can_run_highway(x, weight, bias):
        return linear_native.highway(x, weight, bias)
    transform, gate = functional.linear(x, weight, bias).chunk(2, dim=-1)
    return torch.lerp(x, transform.relu().to(x.dtype), gate.sigmoid().to(x.dtype))
