"""One LSTM layer with projection and both clips, all directions together: the reference's call.

Only `h·W_h` and the projection have to go step by step; the products of the input, of the weights'
gradients and of the input's gradient are single ones over all steps. `lstm_fused_walk` does that.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import HALF_DTYPES, can_fuse, on_device_of, product_dtype
from elmo.kernels.lstm_call import LSTMCall, Walk
from elmo.kernels.lstm_fused_plan import plan_for
from elmo.kernels.lstm_fused_steps import Backward, Forward, Shape

NEEDS = "Triton, a CUDA device of capability 8.0 or more, and float32, bfloat16 or float16"


def can_run(directions: Sequence[LSTMCall]) -> bool:
    """Tell whether this is a call for a GPU that Triton knows, in a precision it computes in."""
    first = directions[0]
    return can_fuse(first.x) and all(
        product_dtype(direction.x) in (*HALF_DTYPES, torch.float32)
        and direction.c.dtype == torch.float32
        and _alike(direction) == _alike(first)
        for direction in directions
    )


def _alike(direction: LSTMCall) -> tuple[object, ...]:
    """Give what has to be the same in all directions of a call."""
    sizes = [direction.x.shape, direction.h.shape, direction.c.shape]
    clips = [direction.cell_clip, direction.projection_clip]
    return (direction.x.device, *sizes, *clips, direction.weight_hr is None)


def lstm(directions: Sequence[LSTMCall]) -> list[Walk]:
    """Run a layer; all directions have the same shapes and clips.

    Gradients of gradients are not there, and a graph can be walked back once: the gates are
    overwritten by their gradients.
    """
    first = directions[0]
    inputs = [_input_of(direction) for direction in directions]
    n_steps, batch, dim = inputs[0].shape
    tensors: list[Tensor | None] = []
    for x, direction in zip(inputs, directions, strict=True):
        tensors += [x, direction.weight_ih, direction.weight_hh, direction.bias]
        tensors += [direction.weight_hr, direction.h, direction.c]
    needs_gradient = any(tensor is not None and tensor.requires_grad for tensor in tensors)
    dtype = product_dtype(inputs[0])
    shape = Shape(
        n_directions=len(directions),
        n_steps=n_steps,
        batch=batch,
        dim=dim,
        cell=first.c.shape[1],
        out=first.h.shape[1],
        projected=first.weight_hr is not None,
        cell_clip=first.cell_clip,
        projection_clip=first.projection_clip if first.weight_hr is not None else None,
        dtype=dtype,
        training=needs_gradient and torch.is_grad_enabled(),
        n_rows=_rows_of_steps(directions, n_steps),
        plan=plan_for(batch, dtype),
    )
    marks = _marks_of(directions, n_steps, inputs[0].device)
    with torch.autocast(inputs[0].device.type, enabled=False), on_device_of(inputs[0]):
        results = _FusedLayer.apply(shape, marks, *tensors)  # type: ignore[no-untyped-call]
    walks = []
    for number, direction in enumerate(directions):
        out, h, c = results[3 * number : 3 * number + 3]
        walks.append((out.flip(0) if direction.reverse else out, h, c))
    return walks


def _input_of(direction: LSTMCall) -> Tensor:
    """Give (time, batch, dim) in the order it is walked."""
    if direction.index is None:
        return direction.x.flip(0) if direction.reverse else direction.x
    index = direction.index.flip(0) if direction.reverse else direction.index
    return functional.embedding(index, direction.x)


def _rows_of_steps(directions: Sequence[LSTMCall], n_steps: int) -> tuple[int, ...] | None:
    """Give the rows that have to be computed at each step, where they are not all."""
    counts = []
    for direction in directions:
        if direction.active is None or min(direction.active) == len(direction.h):
            return None
        counts.append(direction.active[::-1] if direction.reverse else direction.active)
    return tuple(max(1, *(count[step] for count in counts)) for step in range(n_steps))


def _marks_of(directions: Sequence[LSTMCall], n_steps: int, device: torch.device) -> Tensor | None:
    """Give what each row is at each step, (directions, time, batch), or None where all is plain."""
    from elmo.kernels.triton_lstm import PADDING, RESET

    found = []
    for direction in directions:
        batch = len(direction.h)
        marks = None
        if direction.active is None:
            marks = (~direction.mask).to(torch.int8) * PADDING.value
        elif min(direction.active) < batch:
            counts = torch.tensor(direction.active)
            if device.type == "cuda":
                # A copy that nobody waits for.
                counts = counts.pin_memory().to(device, non_blocking=True)
            is_padding = torch.arange(batch, device=device) >= counts[:, None]
            marks = is_padding.to(torch.int8) * PADDING.value
        if direction.resets is not None:
            resets = direction.resets.to(torch.int8) * RESET.value
            marks = resets if marks is None else marks + resets
        if marks is not None and direction.reverse:
            marks = marks.flip(0)
        found.append(marks)
    if all(marks is None for marks in found):
        return None
    shape = (n_steps, len(directions[0].h))
    plain = torch.zeros(shape, dtype=torch.int8, device=device)
    return torch.stack([plain if marks is None else marks for marks in found])


class _FusedLayer(torch.autograd.Function):
    """The layer with its gradient; tensors come and go as a flat list, seven a direction."""

    @staticmethod
    def forward(ctx: Any, shape: Shape, marks: Tensor | None, *tensors: Tensor) -> Any:
        kept = Forward(shape, marks, tensors)
        kept.walk()
        ctx.shape, ctx.is_spent = shape, False
        ctx.kinds = [None if tensor is None else tensor.dtype for tensor in tensors]
        if shape.training:
            ctx.save_for_backward(*kept.saved())
        results: list[Tensor] = []
        for number in range(shape.n_directions):
            h = kept.states[number, -1, :, shape.dim :]
            results += [kept.outputs[number], h.clone(), kept.cells[number, -1].clone()]
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if ctx.is_spent:
            raise RuntimeError(
                "the fused LSTM can be walked back once; use kernel=reference for a second time"
            )
        ctx.is_spent = True
        found = Backward(ctx.shape, ctx.saved_tensors, gradients).walk(
            any(ctx.needs_input_grad[2::7])
        )
        typed = [
            None if value is None or kind is None else value.to(kind)
            for value, kind in zip(found, ctx.kinds, strict=True)
        ]
        return (None, None, *typed)
