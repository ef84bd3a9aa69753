"""Captures training steps as CUDA graphs, once per set of input shapes, and replays them.

For a small model, launching the kernels of a step from Python takes longer than running them; a
CUDA graph launches them all at once. A graph needs fixed shapes, but the number of distinct words
and the number of softmax rows vary between steps. Both are therefore padded to the largest size so
far, rounded up to a coarse grid, so that the shapes change only a few times at the beginning of a
run. Only one graph exists at a time, since each occupies the memory of a whole step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.corpus.token_tables import SegmentBatch
from elmo.train.softmax_heads import DrawnRows, StepRows

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Arrays = dict[str, NDArray[np.int64]]

ROWS_MULTIPLE = 2048
"""Softmax rows are padded to a multiple of this with rows that are not updated."""
WORD_GRID = 16
# Pinned buffers for copies to the device: one is filled while the other is in use.
N_BUFFERS = 2


def can_capture(fabric: "Fabric", config: PretrainConfig | FinetuneConfig) -> bool:
    """Whether the training steps of a run can be captured as a CUDA graph.

    This requires a single CUDA device, no gradient accumulation, kernels other than the reference
    kernels, and a softmax that is not adaptive.
    """
    return (
        fabric.device.type == "cuda"
        and fabric.world_size == 1
        and config.run.strategy == "auto"
        and config.run.accumulate == 1
        and config.run.kernel != "reference"
        and config.loss.softmax != "adaptive"
    )


def step_arrays(batch: SegmentBatch | None, drawn: DrawnRows | None) -> Arrays:
    """Return the integer input arrays of a training step by name."""
    arrays: Arrays = {}
    if batch is not None:
        arrays |= {"words": batch.words, "index": batch.index, "targets": batch.targets}
        arrays["resets"] = batch.resets.astype(np.int64)
    if drawn is not None:
        arrays |= {"ids": drawn.ids, "valid": drawn.valid, "sampled": drawn.sampled}
        arrays["n_tries"] = drawn.n_tries
    return arrays


def step_rows(inputs: dict[str, Tensor]) -> StepRows:
    """Return the softmax rows contained in the inputs of a step; see `step_arrays`."""
    return StepRows(inputs["ids"], inputs["valid"].float(), inputs["sampled"], inputs["n_tries"])


Update = Callable[[dict[str, Tensor], bool], tuple[Tensor, Tensor]]
"""A training step: maps named inputs and `frozen` to the losses and the gradient norm."""


class CudaGraphStep:
    """Runs training steps eagerly for new input shapes, and as a CUDA graph after that."""

    def __init__(self, device: torch.device) -> None:
        """Initialize without a captured graph.

        Args:
            device: A CUDA device.
        """
        self.copier = _HostToDeviceCopier(device)
        self.n_words = 0
        """Number of distinct words that steps are padded to: the largest so far, rounded up. It is
        part of checkpoints, since embedding dropout draws a random number for padding words too."""
        self._captured: _CapturedStep | None = None

    def forget(self) -> None:
        """Discard the graph; needed after a tensor used by the step has been replaced."""
        self._captured = None

    def __call__(self, update: Update, arrays: Arrays, *, frozen: bool) -> tuple[Tensor, Tensor]:
        """Run a training step.

        Args:
            update: Function that performs the step. It must be the same in every call.
            arrays: Input arrays of the step by name.
            frozen: Whether only the softmax is trained.

        Returns:
            The losses and the gradient norm. These tensors are overwritten by the next call.
        """
        self.n_words = max(self.n_words, round_up(len(arrays["words"])))
        arrays = pad_words(arrays, self.n_words)
        shapes = {name: array.shape for name, array in arrays.items()}
        flat = self.copier.copy(list(arrays.values()))
        captured = self._captured
        if captured is None or captured.key != (frozen, shapes):
            # The first step of a shape is not captured: it compiles kernels and creates the state
            # of the optimizer.
            self._captured = None
            self._captured = _CapturedStep((frozen, shapes), torch.empty_like(flat))
            return update(_split_by_name(flat, shapes), frozen)
        captured.inputs.copy_(flat)
        if captured.graph is None:
            captured.capture(update)
        assert captured.graph is not None
        assert captured.results is not None
        captured.graph.replay()
        return captured.results


class _CapturedStep:
    """Input buffer for one set of input shapes, and the CUDA graph once it is captured."""

    def __init__(self, key: tuple[bool, dict[str, tuple[int, ...]]], inputs: Tensor) -> None:
        self.key = key
        self.inputs = inputs
        self.graph: torch.cuda.CUDAGraph | None = None
        self.results: tuple[Tensor, Tensor] | None = None

    def capture(self, update: Update) -> None:
        frozen, shapes = self.key
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = update(_split_by_name(self.inputs, shapes), frozen)
        self.graph, self.results = graph, results


def pad_words(arrays: Arrays, n_words: int) -> Arrays:
    """Pad the array of distinct words with word 0; no batch position refers to the padding."""
    words = arrays["words"]
    return {**arrays, "words": np.pad(words, (0, n_words - len(words)))}


def round_up(n: int) -> int:
    """Round up to a multiple of 64, or of 1/16 of the next power of two if that is larger."""
    multiple = max(64, (1 << n.bit_length()) // WORD_GRID)
    return n + -n % multiple


def _split_by_name(flat: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Split a flat integer tensor into named tensors with the given shapes."""
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    parts = torch.split(flat, sizes)
    return {
        name: part.view(shape).long()
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class _HostToDeviceCopier:
    """Copies the integer inputs of a step to the device in one transfer, on a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.next_buffer = 0
        self.buffers = [_PinnedBuffer() for _ in range(N_BUFFERS)]

    def copy(self, arrays: list[NDArray[np.int64]]) -> Tensor:
        """Return all arrays on the device as one flat int32 tensor."""
        size = sum(array.size for array in arrays)
        buffer = self.buffers[self.next_buffer]
        self.next_buffer = (self.next_buffer + 1) % N_BUFFERS
        buffer.copied.synchronize()
        if buffer.values.numel() < size:
            buffer.values = torch.empty(size + size // 4, dtype=torch.int32, pin_memory=True)
        host = buffer.values[:size]
        np.concatenate([array.ravel() for array in arrays], out=host.numpy(), casting="unsafe")
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            flat = host.to(self.device, non_blocking=True)
            buffer.copied.record(self.stream)
        current.wait_stream(self.stream)
        flat.record_stream(current)
        return flat


class _PinnedBuffer:
    """Pinned host memory, and a CUDA event that marks when it can be overwritten."""

    def __init__(self) -> None:
        self.values = torch.empty(0, dtype=torch.int32)
        self.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
