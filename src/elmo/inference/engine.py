"""Inference engine: the weights of a biLM, compiled for a precision and a device."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.inference.precision import ResolvedPrecision, lstm_widths, resolve_precision
from elmo.kernels.device import can_fuse
from elmo.kernels.lstm_native import has_native_widths
from elmo.kernels.native_ffi import can_compute
from elmo.kernels.native_kernels import NativeKernels
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.kernels.weight_snapshot import WeightSnapshot
from elmo.model.bilm import BiLM
from elmo.model.replaced_weights import with_weights


@dataclass(frozen=True)
class Engine:
    """Kernels and weights for computing vectors.

    An engine must not be used after a weight changed: copies of weights are packed on first use,
    and biases and tables are read in each call, so it would mix old and new weights. `EngineSlot`
    returns a new engine then.

    `snapshot` is that of the original weights; `converted` are the weights in the dtype of the
    computation, by their names in `BiLM`, or None if the weights of the model are used.
    `has_native_lstm` is whether the native library computes the LSTM.
    """

    precision: ResolvedPrecision
    kernels: Kernels
    device: torch.device
    snapshot: WeightSnapshot
    converted: Mapping[str, Tensor] | None = None
    has_native_lstm: bool = False

    @classmethod
    def compile(
        cls,
        weights: Mapping[str, Tensor],
        precision: torch.dtype | str | None = None,
        device: torch.device | None = None,
        *,
        kernels: Kernels = AUTO_KERNELS,
        snapshot: WeightSnapshot | None = None,
    ) -> "Engine":
        """Return an engine for the given weights. The native library packs them on first use.

        Args:
            weights: Weights by their names in `BiLM`, all of the same dtype.
            precision: A dtype or its name, "int8", "int8x3" or "auto". Default: the dtype of the
                weights.
            device: Device of the computation. Default: the device of the weights.
            kernels: Kernels for operations that the native library does not support. The library
                is only used with "auto".
            snapshot: Snapshot of the weights, whose packed copies are reused.

        Raises:
            ConfigError: The precision is unknown or not supported on the device.
        """
        first = next(iter(weights.values()))
        device = first.device if device is None else device
        resolved = resolve_precision(precision, first.dtype, device, lstm_widths(weights))
        snapshot = WeightSnapshot(weights.values()) if snapshot is None else snapshot
        read, converted = snapshot, None
        if (resolved.weights, device) != (first.dtype, first.device):
            # Before they are read: the slot then detects a change of the originals.
            snapshot.use(weights.values())
            converted = {
                name: value.detach().to(device, resolved.weights) for name, value in weights.items()
            }
            read = WeightSnapshot(converted.values())
        is_native = (
            (kernels.name, device.type, resolved.weights) == ("auto", "cpu", torch.float32)
        ) and can_compute(resolved.number_format)
        if is_native:
            kernels = NativeKernels(read, resolved.number_format)
        has_native_lstm = is_native and has_native_widths(lstm_widths(weights))
        return cls(resolved, kernels, device, snapshot, converted, has_native_lstm)

    @property
    def kernel(self) -> str:
        """Name of the kernels of the LSTM: "native", "fused", "cudnn" or "reference"."""
        if self.has_native_lstm:
            return "native"
        if self.kernels.name != "auto":
            return self.kernels.name
        if self.device.type != "cuda":
            return "reference"
        return "fused" if can_fuse(torch.empty(0, device=self.device)) else "cudnn"

    def with_weights(self, bilm: BiLM) -> BiLM:
        """Return a biLM that has the weights of the engine, for one call.

        It is the given biLM, which the engine was compiled for, unless the weights were converted.
        """
        return bilm if self.converted is None else with_weights(bilm, self.converted)


def compile_kernels(
    weights: Iterable[tuple[str, Tensor]], kernels: Kernels = AUTO_KERNELS
) -> Kernels:
    """Return kernels, native ones if possible, for float32 weights that do not change.

    The weights come with their names in `BiLM`.
    """
    named = dict(weights)
    if not named or not is_float32_on_cpu(next(iter(named.values()))):
        return kernels
    return Engine.compile(named, kernels=kernels).kernels


def is_float32_on_cpu(weight: Tensor) -> bool:
    """Whether the native library can read a weight without conversion."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32
