"""Keeps the compiled engines of a model and drops them when a weight changes."""

import logging
import platform
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from elmo.inference.engine import Engine, is_float32_on_cpu
from elmo.inference.precision import ResolvedPrecision, lstm_widths, resolve_precision
from elmo.kernels.native_ffi import NumberFormat, can_compute
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.kernels.weight_snapshot import WeightSnapshot, packing_lock

logger = logging.getLogger(__name__)

# A call that computes at least this many positions compares all weights with their checksums, which
# takes about 2 % of its time, and less of longer calls. Measured at the original size on ARM and on
# x86 with AMX.
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
CHECKSUM_POSITIONS: dict[NumberFormat, int] = {
    "float32": 2560 if _IS_X86 else 640,
    "int8x3": 3072,  # only on x86
    "bfloat16": 12288 if _IS_X86 else 2048,
    "int8": 15360 if _IS_X86 else 2560,
}


class EngineSlot:
    """The engines of a model, one per precision.

    Before each use the weights are compared with those that the engines were compiled from; packed
    copies of changed weights are dropped. Writes that PyTorch does not count, such as those through
    `weight.data`, are detected by calls of many positions only; `drop` covers the others.

    The slot is empty after copying or pickling. If a part of the model is moved to another device,
    its old weights are kept until the next use or `drop`.
    """

    def __init__(self, kernels: Kernels = AUTO_KERNELS) -> None:
        """Create an empty slot; `kernels` are for operations that the native library lacks."""
        self._kernels = kernels
        self.drop()

    def __reduce__(self) -> tuple[type["EngineSlot"], tuple[Kernels]]:
        """Copy and pickle an empty slot."""
        return EngineSlot, (self._kernels,)

    def drop(self) -> None:
        """Drop all engines. Word caches are cleared on their next use."""
        with packing_lock():  # else a call in another thread could put the old snapshot back
            self._snapshot = WeightSnapshot()
            self._engines: dict[ResolvedPrecision, Engine] = {}

    def engine(
        self,
        weights: Mapping[str, Tensor],
        precision: torch.dtype | str | None = None,
        n_positions: int = 0,
        n_layers: int | None = None,
    ) -> Engine:
        """Return an engine for the current weights, by their names in `BiLM`; see `Engine.compile`.

        `n_positions` and `n_layers` (default: all) are the extent of the coming computation.
        """
        first = next(iter(weights.values()))
        widths = lstm_widths(weights)
        resolved = resolve_precision(precision, first.dtype, first.device, widths)
        if any(type(weight) is not nn.Parameter for weight in weights.values()):
            # Replaced for a single call, by `functional_call` for example: nothing is packed.
            empty = WeightSnapshot()
            return Engine.compile(weights, precision, kernels=self._kernels, snapshot=empty)
        is_long = n_positions >= CHECKSUM_POSITIONS[resolved.number_format]
        compare = _used_weights(weights, n_layers) if is_long else []
        snapshot = self._snapshot.updated(weights.values(), compare=compare)
        engine = self._engines.get(resolved)
        if engine is not None and engine.snapshot is snapshot:
            return engine
        with packing_lock():
            # Another thread may have replaced it in the meantime.
            snapshot = self._snapshot.updated(weights.values(), compare=compare)
            if snapshot is not self._snapshot:
                self._snapshot, self._engines = snapshot, {}
            if resolved in self._engines:
                return self._engines[resolved]
            engine = Engine.compile(weights, precision, kernels=self._kernels, snapshot=snapshot)
            if first.device.type == "cpu":
                # On a GPU converted weights are not kept: it has no checksums, and converting them
                # takes little time.
                self._engines[resolved] = engine
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "Computing on %s with %s kernels in %s (requested: %s).",
                engine.device,
                engine.kernel,
                engine.precision.name,
                precision or "dtype of the weights",
            )
        return engine

    def kernels(self, weights: Iterable[tuple[str, Tensor]], n_positions: int = 0) -> Kernels:
        """Return kernels for the current weights with names, to compute `n_positions` positions."""
        if (
            self._kernels.name != "auto"
            # A compiled graph has its own kernels, and a trace would contain the packed weights.
            or torch.compiler.is_compiling()
            or torch._C._get_tracing_state() is not None
            or torch._C._are_functorch_transforms_active()
        ):
            return self._kernels
        rest = iter(weights)
        first = next(rest, None)  # FSDP can leave a module without parameters
        # The library is only compiled if it can be used.
        if first is None or not is_float32_on_cpu(first[1]) or not can_compute("float32"):
            return self._kernels
        return self.engine(dict((first, *rest)), None, n_positions).kernels


def _used_weights(weights: Mapping[str, Tensor], n_layers: int | None) -> list[Tensor]:
    """Return the weights without those of LSTM layers that are not computed."""

    def is_used(name: str) -> bool:
        layer = name.partition("_lstm.layers.")[2].partition(".")[0]
        return n_layers is None or not layer or int(layer) < n_layers

    return [weight for name, weight in weights.items() if is_used(name)]
