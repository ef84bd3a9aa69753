"""A step that is launched as one: recorded once for each size of its inputs, then done again.

Python starts a few launches in the time a small step takes as a whole; a CUDA graph starts them all
at once. Only sizes may not change: the numbers of distinct words and of softmax rows do, and are
filled up to a coarse grid, so that a run has a handful of sizes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.tables import Batch
from elmo.train.heads import Drawn, StepRows

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Arrays = dict[str, NDArray[np.int64]]

ROWS_MULTIPLE = 2048
"""Softmax rows are filled up to a multiple of this, with rows that do not move."""
# Distinct words are filled up to a sixteenth to an eighth of their number.
WORD_STEPS = 16
# Windows on their way to the device while one is computed.
SLOTS = 2


def can_record(fabric: "Fabric", config: PretrainConfig | FinetuneConfig) -> bool:
    """Tell whether a step is always the same launches: one CUDA device, one part, fixed shapes."""
    return (
        fabric.device.type == "cuda"
        and fabric.world_size == 1
        and config.run.accumulate == 1
        and config.loss.softmax != "adaptive"
    )


def arrays_of(batch: Batch | None, drawn: Drawn | None) -> Arrays:
    """Give what a step needs, by name; all integers."""
    arrays: Arrays = {}
    if batch is not None:
        arrays |= {"words": batch.words, "index": batch.index, "targets": batch.targets}
        arrays["resets"] = batch.resets.astype(np.int64)
    if drawn is not None:
        arrays |= {"ids": drawn.ids, "valid": drawn.valid, "sampled": drawn.sampled}
        arrays["n_tries"] = drawn.n_tries
    return arrays


def rows_of(given: dict[str, Tensor]) -> StepRows:
    """Give the softmax's share of `arrays_of`, on the device."""
    return StepRows(given["ids"], given["valid"].float(), given["sampled"], given["n_tries"])


class RecordedStep:
    """Runs a function of named tensors: plainly when a size comes first, recorded from then on."""

    def __init__(
        self,
        update: Callable[[dict[str, Tensor], bool], tuple[Tensor, Tensor]],
        device: torch.device,
    ) -> None:
        """Record nothing yet.

        Args:
            update: the step: named integers and whether the softmax learns alone, to losses and
                norm.
            device: a CUDA device.
        """
        self.update = update
        self.device = device
        self.courier = _Courier(device)
        # One memory for all recordings: they never run at the same time.
        self._pool = torch.cuda.graph_pool_handle()
        self._recordings: dict[tuple[object, ...], _Recording] = {}

    def forget(self) -> None:
        """Record anew: something the step uses has been replaced."""
        self._recordings.clear()

    def __call__(self, arrays: Arrays, *, frozen: bool) -> tuple[Tensor, Tensor]:
        """Take a step; what it gives is overwritten by the next one."""
        arrays = {**arrays, "words": _filled_up(arrays["words"])}
        shapes = {name: array.shape for name, array in arrays.items()}
        key = (frozen, *shapes.items())
        flat = self.courier.bring(list(arrays.values()))
        recording = self._recordings.get(key)
        if recording is None:
            # Plainly at first: kernels are compiled and the optimiser's state is made on the way.
            self._recordings[key] = _Recording(torch.empty_like(flat))
            return self.update(_named(flat, shapes), frozen)
        recording.inputs.copy_(flat)
        if recording.graph is None:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            recording.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recording.graph, pool=self._pool):
                recording.results = self.update(_named(recording.inputs, shapes), frozen)
        recording.graph.replay()
        assert recording.results is not None
        return recording.results


class _Recording:
    def __init__(self, inputs: Tensor) -> None:
        self.inputs = inputs
        self.graph: torch.cuda.CUDAGraph | None = None
        self.results: tuple[Tensor, Tensor] | None = None


def _filled_up(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fill up with the first word, which nothing refers to there."""
    grain = max(64, (1 << len(words).bit_length()) // WORD_STEPS)
    return np.pad(words, (0, -len(words) % grain))


def _named(flat: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Cut one piece of integers into named tensors."""
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    parts = torch.split(flat, sizes)
    return {
        name: part.view(shape).long()
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class _Courier:
    """Brings integers to the device in one piece, on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.turn = 0
        self.slots = [_Slot() for _ in range(SLOTS)]

    def bring(self, arrays: list[NDArray[np.int64]]) -> Tensor:
        """Give all arrays as one row of int32, to be used before the call after the next."""
        size = sum(array.size for array in arrays)
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % SLOTS
        slot.sent.synchronize()
        if slot.host.numel() < size:
            slot.host = torch.empty(size + size // 4, dtype=torch.int32, pin_memory=True)
        host = slot.host[:size]
        np.concatenate([array.ravel() for array in arrays], out=host.numpy(), casting="unsafe")
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            brought = host.to(self.device, non_blocking=True)
            slot.sent.record(self.stream)
        current.wait_stream(self.stream)
        brought.record_stream(current)
        return brought


class _Slot:
    """Memory on the host that may not be written to before it was sent."""

    def __init__(self) -> None:
        self.host = torch.empty(0, dtype=torch.int32)
        self.sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
