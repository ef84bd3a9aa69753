"""Captures training steps as CUDA graphs, once per set of input shapes, and replays them.

For a small model, launching the kernels of a step from Python takes longer than running them; a
CUDA graph launches them all at once. A graph needs fixed shapes, but the number of distinct words
and the number of softmax rows vary between steps. Both are therefore padded to the largest size so
far, rounded up to a coarse grid, so that the shapes change only a few times at the beginning of a
run. Only one graph exists at a time, since each occupies the memory of a whole step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from elmo.config import FinetuneConfig, PretrainConfig
from elmo.train.step_input import StepInput

if TYPE_CHECKING:
    from lightning.fabric import Fabric

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
        and config.run.accumulate == 1
        and config.run.kernel != "reference"
        and config.loss.softmax != "adaptive"
    )


Update = Callable[[StepInput, bool], tuple[Tensor, Tensor]]
"""A training step: maps its input and `frozen` to the losses and the gradient norm."""


class CudaGraphStep:
    """Runs training steps eagerly for new input shapes, and as a CUDA graph after that."""

    def __init__(self, device: torch.device) -> None:
        self.copier = _HostToDeviceCopier(device)
        self.n_words = 0
        """Number of distinct words that steps are padded to: the largest so far, rounded up. It is
        part of checkpoints, since embedding dropout draws a random number for padding words too."""
        self._captured: _CapturedStep | None = None

    def forget(self) -> None:
        """Discard the graph; needed after a tensor used by the step has been replaced."""
        self._captured = None

    def __call__(
        self, update: Update, step_input: StepInput, *, frozen: bool
    ) -> tuple[Tensor, Tensor]:
        """Run a training step; `update` performs it and must be the same in every call.

        The input is on the host, in a single batch. If frozen, only the softmax is trained. Returns
        the losses and the gradient norm, tensors that are overwritten by the next call.
        """
        self.n_words = max(self.n_words, round_up(len(step_input.batches[0].words)))
        step_input = step_input.pad_words(self.n_words)
        key = (frozen, step_input.shapes())
        flat = self.copier.copy(step_input)
        captured = self._captured
        if captured is None or captured.key != key:
            # The first step of a shape is not captured: it compiles kernels and creates the state
            # of the optimizer.
            self._captured = None
            self._captured = _CapturedStep(key, torch.empty_like(flat))
            return update(step_input.split(flat), frozen)
        captured.flat.copy_(flat)
        if captured.graph is None:
            captured.capture(update, step_input)
        assert captured.graph is not None
        assert captured.results is not None
        captured.graph.replay()
        return captured.results


class _CapturedStep:
    """Input buffer for one set of input shapes, and the CUDA graph once it is captured."""

    def __init__(self, key: tuple[bool, tuple[torch.Size, ...]], flat: Tensor) -> None:
        self.key = key
        self.flat = flat
        self.graph: torch.cuda.CUDAGraph | None = None
        self.results: tuple[Tensor, Tensor] | None = None

    def capture(self, update: Update, step_input: StepInput) -> None:
        frozen, _ = self.key
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            # Split inside the graph, so that a replay reads the current content of the buffer.
            results = update(step_input.split(self.flat), frozen)
        self.graph, self.results = graph, results


def round_up(n: int) -> int:
    """Round up to a multiple of 64, or of 1/16 of the next power of two if that is larger."""
    multiple = max(64, (1 << n.bit_length()) // WORD_GRID)
    return n + -n % multiple


class _HostToDeviceCopier:
    """Copies the integer inputs of a step to the device in one transfer, on a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.next_buffer = 0
        self.buffers = [_PinnedBuffer() for _ in range(N_BUFFERS)]

    def copy(self, step_input: StepInput) -> Tensor:
        """Return all tensors of the input on the device as one flat int32 tensor."""
        size = step_input.size()
        buffer = self.buffers[self.next_buffer]
        self.next_buffer = (self.next_buffer + 1) % N_BUFFERS
        buffer.copied.synchronize()
        if buffer.values.numel() < size:
            buffer.values = torch.empty(size + size // 4, dtype=torch.int32, pin_memory=True)
        host = buffer.values[:size]
        step_input.flatten(host)
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
