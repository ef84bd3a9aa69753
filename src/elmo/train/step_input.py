"""The input of a training step: its batches, and the softmax rows that it uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.corpus.token_tables import SegmentBatch
from elmo.kernels.device import to_device
from elmo.train.softmax_heads import SoftmaxRows


@dataclass(frozen=True)
class SegmentTensors:
    """The fields of a `SegmentBatch` as tensors."""

    words: Tensor
    index: Tensor
    targets: Tensor
    resets: Tensor

    @classmethod
    def of(cls, batch: SegmentBatch) -> "SegmentTensors":
        """Convert a batch; the memory of its arrays is shared."""
        return cls(**{name: torch.from_numpy(array) for name, array in vars(batch).items()})


@dataclass(frozen=True)
class StepInput:
    """Batches of a training step, and the softmax rows that it uses if not all."""

    batches: tuple[SegmentTensors, ...]
    rows: SoftmaxRows | None

    @classmethod
    def of(cls, batches: Sequence[SegmentBatch], rows: SoftmaxRows | None) -> "StepInput":
        """Combine the batches and the softmax rows of a step."""
        return cls(tuple(map(SegmentTensors.of, batches)), rows)

    def to(self, device: torch.device) -> "StepInput":
        """Copy the input to a device, asynchronously for CUDA."""
        return self._map(lambda tensor: to_device(tensor, device))

    def pad_words(self, n_words: int) -> "StepInput":
        """Pad the distinct words of a single batch with word 0, to which no position refers."""
        (batch,) = self.batches
        words = functional.pad(batch.words, (0, n_words - len(batch.words)))
        return replace(self, batches=(replace(batch, words=words),))

    def shapes(self) -> tuple[torch.Size, ...]:
        """Return the shapes of all tensors."""
        return tuple(tensor.shape for tensor in self._tensors())

    def size(self) -> int:
        """Return the number of integers in all tensors."""
        return sum(shape.numel() for shape in self.shapes())

    def flatten(self, out: Tensor) -> None:
        """Write all tensors, which must be on the host, to an int32 tensor of shape (size,)."""
        arrays = [tensor.numpy().ravel() for tensor in self._tensors()]
        np.concatenate(arrays, out=out.numpy(), casting="unsafe")

    def split(self, flat: Tensor) -> "StepInput":
        """Return the input written by `flatten`, on the device of the flat tensor.

        This instance only defines the shapes and dtypes.
        """
        parts = iter(torch.split(flat, [shape.numel() for shape in self.shapes()]))
        return self._map(lambda tensor: next(parts).view(tensor.shape).to(tensor.dtype))

    def _tensors(self) -> list[Tensor]:
        groups = self.batches if self.rows is None else (*self.batches, self.rows)
        return [tensor for group in groups for tensor in vars(group).values()]

    def _map(self, function: Callable[[Tensor], Tensor]) -> "StepInput":
        """Replace every tensor by the result of a function, in the order of `_tensors`."""
        batches = [SegmentTensors(*map(function, vars(batch).values())) for batch in self.batches]
        rows = self.rows and SoftmaxRows(*map(function, vars(self.rows).values()))
        return StepInput(tuple(batches), rows)
