"""A step that is launched as one: recorded once for each size of its inputs, then done again.

Python starts a few launches in the time a small step takes as a whole; a CUDA graph starts them all
at once. Only sizes may not change: the numbers of distinct words and of softmax rows do, and are
filled up to the largest there were, on a coarse grid. So they only grow, a few times in the first
steps; and there is one recording at a time, since each holds the memory of a whole step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.token_tables import SegmentBatch
from elmo.train.softmax_heads import Drawn, StepRows

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Arrays = dict[str, NDArray[np.int64]]

ROWS_MULTIPLE = 2048
"""Softmax rows are filled up to a multiple of this, with rows that do not move."""
WORD_STEPS = 16
# Windows on their way to the device while one is computed.
SLOTS = 2


def can_capture(fabric: "Fabric", config: PretrainConfig | FinetuneConfig) -> bool:
    """Tell whether a step is always the same launches: one CUDA device, one part, fixed shapes."""
    return (
        fabric.device.type == "cuda"
        and fabric.world_size == 1
        and config.run.strategy == "auto"
        and config.run.accumulate == 1
        and config.run.kernel != "reference"
        and config.loss.softmax != "adaptive"
    )


def arrays_of(batch: SegmentBatch | None, drawn: Drawn | None) -> Arrays:
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


Update = Callable[[dict[str, Tensor], bool], tuple[Tensor, Tensor]]
"""A step: named integers and whether the softmax learns alone, to losses and norm."""


class CudaGraphStep:
    """Runs a function of named tensors: plainly when a size comes first, recorded from then on."""

    def __init__(self, device: torch.device) -> None:
        """Record nothing yet.

        Args:
            device: a CUDA device.
        """
        self.courier = _Courier(device)
        self.n_words = 0
        """Most distinct words there were, on the grid; part of what a run goes on with, since
        leaving out words is drawn for those that fill up too."""
        self._recording: _Recording | None = None

    def forget(self) -> None:
        """Record anew: something the step uses has been replaced."""
        self._recording = None

    def __call__(self, update: Update, arrays: Arrays, *, frozen: bool) -> tuple[Tensor, Tensor]:
        """Take a step; what it gives is overwritten by the next one.

        Args:
            update: the step, always the same.
            arrays: what it is given.
            frozen: whether the softmax learns alone.
        """
        self.n_words = max(self.n_words, on_grid(len(arrays["words"])))
        arrays = filled_up(arrays, self.n_words)
        shapes = {name: array.shape for name, array in arrays.items()}
        flat = self.courier.bring(list(arrays.values()))
        recording = self._recording
        if recording is None or recording.key != (frozen, shapes):
            # Plainly at first: kernels are compiled and the optimiser's state is made on the way.
            self._recording = None
            self._recording = _Recording((frozen, shapes), torch.empty_like(flat))
            return update(_named(flat, shapes), frozen)
        recording.inputs.copy_(flat)
        if recording.graph is None:
            recording.record(update)
        assert recording.graph is not None
        assert recording.results is not None
        recording.graph.replay()
        return recording.results


class _Recording:
    """One size of a step, and its launches once they are recorded."""

    def __init__(self, key: tuple[bool, dict[str, tuple[int, ...]]], inputs: Tensor) -> None:
        self.key = key
        self.inputs = inputs
        self.graph: torch.cuda.CUDAGraph | None = None
        self.results: tuple[Tensor, Tensor] | None = None

    def record(self, update: Update) -> None:
        frozen, shapes = self.key
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = update(_named(self.inputs, shapes), frozen)
        self.graph, self.results = graph, results


def filled_up(arrays: Arrays, n_words: int) -> Arrays:
    """Fill up with the first word, which nothing refers to there."""
    words = arrays["words"]
    return {**arrays, "words": np.pad(words, (0, n_words - len(words)))}


def on_grid(n: int) -> int:
    """Give the next number on a grid that is a sixteenth to an eighth of the number."""
    grain = max(64, (1 << n.bit_length()) // WORD_STEPS)
    return n + -n % grain


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
