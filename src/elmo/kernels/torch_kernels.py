"""Implementations of the network's operations with PyTorch and Triton.

An operation whose inputs and weights need no gradient, such as a layer of a frozen model in a
training loop, runs as under `no_grad`, because kernels without gradients are faster.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo.errors import ConfigError
from elmo.kernels import (
    characters_fused,
    characters_reference,
    lstm_cudnn,
    lstm_fused,
    lstm_reference,
)
from elmo.kernels.gradient_mode import no_grad_if_unneeded
from elmo.kernels.lstm_call import LSTMCall, LSTMResult

# Requirements of the LSTM kernels for GPUs, fastest first.
NEEDS = {"fused": lstm_fused.NEEDS, "cudnn": lstm_cudnn.NEEDS}
NAMES = ("auto", *NEEDS, "reference")


class Kernels:
    """Operations of the network, passed down to the modules that call them.

    These kernels read the weights in each call. `NativeKernels` is faster on a CPU. The name is
    "auto" (the fastest kernel that supports a call), "fused", "cudnn" or "reference".
    """

    def __init__(self, name: str = "auto") -> None:
        """Select kernels by name: "auto", "fused", "cudnn" or "reference"."""
        if name not in NAMES:
            raise ConfigError(f"Unknown kernel {name!r}. Expected one of: {', '.join(NAMES)}.")
        self.name = name

    def lstm(self, directions: Sequence[LSTMCall]) -> list[LSTMResult]:
        """Run a layer in all directions; a call that the kernel does not support is an error."""
        with no_grad_if_unneeded(tensor for call in directions for tensor in call.tensors()):
            if self.name in ("auto", "fused") and lstm_fused.can_run(directions):
                return lstm_fused.lstm(directions)
            if self.name in ("auto", "cudnn") and lstm_cudnn.can_run(directions):
                return lstm_cudnn.lstm(directions)
            if self.name in NEEDS:
                raise ConfigError(
                    f"Kernel {self.name!r} needs {NEEDS[self.name]}. Use auto or reference instead."
                )
            return lstm_reference.lstm(directions)

    def convolve_and_pool(
        self,
        characters: Tensor,
        table: Tensor,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
    ) -> Tensor:
        """Compute `characters_reference.convolve_and_pool`."""
        with no_grad_if_unneeded((table, *weights, *biases)):
            if self.name != "reference" and characters_fused.can_run(characters, table, weights):
                return characters_fused.convolve_and_pool(characters, table, weights, biases)
            return characters_reference.convolve_and_pool(characters, table, weights, biases)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return `x weightᵀ + bias`, (rows, n), for x (rows, k), weight (n, k) and bias (n,)."""
        with no_grad_if_unneeded((x, weight, bias)):
            return functional.linear(x, weight, bias)

    def highway(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the output of a highway layer: `gate * relu(transform) + (1 - gate) * x`.

        The input is (rows, dim). The weights, (2 * dim, dim), and biases are those of the
        transform, followed by those of the gate.
        """
        with no_grad_if_unneeded((x, weight, bias)):
            transform, gate = functional.linear(x, weight, bias).chunk(2, dim=-1)
            return torch.lerp(x, transform.relu().to(x.dtype), gate.sigmoid().to(x.dtype))


AUTO_KERNELS = Kernels()
"""The fastest kernels that read the weights in each call."""
REFERENCE_KERNELS = Kernels("reference")
"""The kernels that need no particular hardware."""
